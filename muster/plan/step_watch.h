// Finds steps that take too long, from the records of what replicas do, looked at now and then.
// Pure: it is told how much time has passed. Thread safety: one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/plan/activity.h"
#include "muster/plan/step_bound.h"

namespace muster::inline v0_1::plan {

// A step that takes longer than its bound, or has ended after that.
struct LongStep {
  std::string task{};  // "worker 1"
  int64_t step = 0;    // its number
  double seconds = 0;  // so far, within the time between two looks
  double bound = 0;    // seconds
  double median = 0;   // of the last steps, in seconds
  double longest = 0;  // likewise
  bool ended = false;

  // "step 7 of worker 1 takes 31 s so far; the median of its last steps is 0.012 s".
  std::string text() const;
};

class StepWatch {
 public:
  // A process that was itself paused, as on a suspended machine, counts at most so many seconds of
  // a pause between two looks.
  static constexpr double kLongestLook = 3;

  // `floor`: seconds; as StepBound has it.
  explicit StepWatch(double floor) : floor_(floor) {}

  // What replicas do now, `elapsed` seconds after the last look. Returns the steps that have just
  // become too long: a step is returned when it exceeds its bound, again each time its length has
  // doubled, and once more when it has ended. Only input, computation, communication and the code
  // between steps count: a run that starts, saves, evaluates, exports, or waits at a barrier for
  // others that do, makes no step.
  std::vector<LongStep> look(const std::vector<ActivityNow>& now, double elapsed);

 private:
  struct Watched {
    StepBound bound;
    int64_t noted = -1;  // the last step whose time was learned
    int64_t step = -1;   // the last one that has ended
    double age = 0;      // seconds of the step under way
    double next = 0;     // it is returned at this age; 0: at its bound
  };
  void look_at(Watched& watched, const ActivityNow& now, double elapsed,
               std::vector<LongStep>& found);

  const double floor_;
  std::map<std::string, Watched> watched_{};  // by task
};

}  // namespace muster::inline v0_1::plan
