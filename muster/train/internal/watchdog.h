// Reports a step that takes too long, before a limit of time ends the run: what this process does,
// with the stacks of its threads; on the chief what the other tasks do, and which one makes the
// others wait. The chief also names a task that is slow all the time. It has a thread of its own,
// which looks once a second: the replicas' threads never wait for it. plan::StepBound says which
// step takes too long.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/file_system.h"
#include "muster/plan/activity.h"
#include "muster/plan/step_watch.h"

namespace muster::inline v0_1::internal {

// What another task did when it said so last.
struct OtherTask {
  plan::ActivityNow now{};
  std::string collective{};  // that it had not ended; "": none
  double age = 0;            // seconds since it said so
  bool silent = false;       // for so long that it stands still, or has ended
  bool trains = true;        // false: a parameter server, or an evaluator
};

class Watchdog {
 public:
  struct Options {
    double floor = 30;          // seconds, at least 1: no shorter step is reported
    bool compares = false;      // this process names the task that makes the others wait
    bool at_own_pace = false;   // the steps of a task wait for no other task
    double look_every = 1;      // seconds
    int looks_to_compare = 10;  // between two comparisons of the tasks
    int times_to_be_slow = 3;   // comparisons after which a task that is slow in each is named
    std::string run{};          // looks at the records of this run; empty: at all of this process
    // What the tasks of other processes do; it may read files. Empty: there are none.
    std::function<std::vector<OtherTask>()> others{};
  };
  // The thread that makes it is the first whose stack is shown.
  explicit Watchdog(Options options);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void watch();
  std::vector<plan::ActivityNow> records() const;
  void report(const std::vector<plan::LongStep>& steps, const std::vector<plan::ActivityNow>& now);
  void compare(const std::vector<plan::ActivityNow>& now);
  std::vector<OtherTask> others() const;

  const Options options_;
  const int64_t maker_;
  plan::StepWatch steps_;
  std::string slow_{};  // the task that is slower than the others, and where
  int times_ = 0;       // comparisons in which it was
  bool told_ = false;   // of it
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::thread thread_;
};

// A run as its watchdog has to know it.
struct WatchedRun {
  double seconds = 0;        // Watchdog::Options::floor; 0: no watchdog
  bool is_chief = false;     // of this process
  bool at_own_pace = false;  // as in Watchdog::Options
  std::string run{};         // likewise
  FileSystem* fs = nullptr;  // nullptr: that of the path
  // The folder in which tasks show what they do; "" while there is none. Any thread calls it.
  // Empty: there are no other tasks.
  std::function<std::string()> folder{};
};
// nullptr where it has none.
std::unique_ptr<Watchdog> watchdog_of(const WatchedRun& run);

// "communication for 31 s, after step 6; bucket 1 of 3; input at epoch 0, example 96".
std::string text_of(const plan::ActivityNow& now);

}  // namespace muster::inline v0_1::internal
