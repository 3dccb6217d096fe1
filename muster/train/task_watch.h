// Shows what this process does in a run, to people and to the watchdog: for runs that are not an
// Estimator's. The replicas' records (plan/activity.h) belong to the caller.
//
//   TaskWatch watch({.place = place, .watchdog = 30});
//   plan::ListedActivity record(place.name(), watch.run());
//   watch.show_in("model");   // as soon as the folder is known
//   watch.begin(true);        // it trains
//   ...
//   watch.end(nullptr);
//
// A thread writes the file of this task (summary/live_status.h), and another one looks for steps
// that hang. The run does not notice either. Thread safety: belongs to the thread that made it,
// which is that of the first replica.
#pragma once

#include <memory>
#include <string>

#include "muster/base/error.h"
#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/distribute/replica_place.h"
#include "muster/distribute/start_options.h"
#include "muster/distribute/strategy.h"

namespace muster::inline v0_1 {

namespace internal {
class LiveTask;
class Watchdog;
}  // namespace internal

class MUSTER_PART_EXPORT TaskWatch {
 public:
  struct Options {
    distribute::ReplicaPlace place{};  // of the first replica of this process
    std::string folder{};              // of the run, in place of all others
    FileSystem* fs = nullptr;          // nullptr: that of the path
    double watchdog = 0;               // seconds, as RunConfig::watchdog; 0: no watchdog
  };
  explicit TaskWatch(const Options& options);
  // end() without an error, unless it was called.
  ~TaskWatch();
  TaskWatch(const TaskWatch&) = delete;
  TaskWatch& operator=(const TaskWatch&) = delete;

  // The name of this run in the process, for records.
  const std::string& run() const { return run_; }
  // A folder of the run, in which the task is shown from begin() on. The first one counts, and
  // before it the one that MUSTER_LIVE_DIR names, and then the directory of the program's job
  // (--model_dir or --job-dir). Empty: none.
  void show_in(const std::string& folder);
  // Shows the task. One that does not train, but evaluates, is shown only where MUSTER_LIVE_DIR is
  // set: in another folder it would take the place of a run that trains there.
  void begin(bool trains);
  // At which step the run ends; below 0: unknown.
  void tell(int64_t last_step);
  // The run is over: `error` is nullptr when it ended well. If one of several processes fails, a
  // report of it is in the folder "failures" of the run's folder afterwards
  // (formats/failure_report.h). Later calls change nothing.
  void end(const Error* error) noexcept;

 private:
  const Options options_;
  const std::string run_;
  void show();

  struct Folder;
  const std::shared_ptr<Folder> folder_;
  const bool asked_;  // MUSTER_LIVE_DIR is set
  bool begun_ = false, ended_ = false;
  std::unique_ptr<internal::LiveTask> live_;
  std::unique_ptr<internal::Watchdog> watchdog_;
};

// Seconds of a watchdog where no RunConfig says it: MUSTER_WATCHDOG_SECONDS; 30 by default. Throws
// InvalidArgument for what is not a number of seconds.
MUSTER_PART_EXPORT double watchdog_seconds();
// Throws InvalidArgument where MUSTER_WATCHDOG_SECONDS or MUSTER_LIVE_SECONDS is not a number of
// seconds.
void check_watch_variables();

// Strategy::serve(), which people see meanwhile: in `folder`, or where that is empty, in one of
// TaskWatch's and last in `start.model_dir`.
MUSTER_PART_EXPORT void serve_in_view(const distribute::Strategy& strategy,
                                      const distribute::StartOptions& start,
                                      const distribute::BuildModel& build,
                                      const std::string& folder = {});

}  // namespace muster::inline v0_1
