// Records steps of a run on each of its replicas, and brings them together on one time line. Thread
// safety: belongs to the replica's thread.
//
// All replicas, also on several threads and tasks, make the same calls in the same order: which
// steps are recorded travels with each step's gradients, so none waits for one that does not know.
#pragma once

#include <cstdint>
#include <optional>

#include "muster/base/clock.h"
#include "muster/distribute/replica.h"
#include "muster/distribute/span_recorder.h"
#include "muster/formats/timeline.h"
#include "muster/train/step_trace.h"

namespace muster::inline v0_1::internal {

class StepProfile {
 public:
  // `replica` and `trace` outlive it; `clock` gives the date.
  StepProfile(distribute::Replica& replica, StepTrace& trace, Clock& clock)
      : replica_(replica), trace_(trace), clock_(clock) {}
  StepProfile(const StepProfile&) = delete;
  StepProfile& operator=(const StepProfile&) = delete;

  // Around each step, with all that belongs to it.
  void begin_step() {
    if (left_ > 0) begin_ = std::chrono::steady_clock::now();
  }
  void end_step(int64_t global_step) {
    if (left_ > 0) note_step(global_step);
  }
  // After take(): the next `steps` are recorded, if none are now and `steps` is not 0. It is the
  // value in StepResult, the same on all replicas.
  void follow(int64_t steps) {
    if (steps > 0 && left_ == 0) start(steps);
  }
  // No step follows.
  void end_run();
  // Once the steps are over, they are gathered, and the chief gets the records of all replicas;
  // nothing elsewhere, and before that.
  std::optional<formats::Timeline> take() {
    if (!over_) return {};
    return gather();
  }

 private:
  void note_step(int64_t global_step);
  void start(int64_t steps);
  void stop();
  std::optional<formats::Timeline> gather();

  distribute::Replica& replica_;
  StepTrace& trace_;
  Clock& clock_;
  distribute::SpanRecorder recorder_;
  int64_t left_ = 0;   // to be recorded
  int64_t steps_ = 0;  // recorded
  bool over_ = false;
  double date_ = 0;  // Unix seconds when the first of them began
  int64_t last_step_ = 0;
  TimePoint begin_;  // of the step under way
};

}  // namespace muster::inline v0_1::internal
