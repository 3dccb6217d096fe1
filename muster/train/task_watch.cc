#include "muster/train/task_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "muster/base/environment.h"
#include "muster/base/foreign_error.h"
#include "muster/cluster/resolved_cluster.h"
#include "muster/command/job_dir.h"
#include "muster/plan/activity.h"
#include "muster/plan/failure.h"
#include "muster/train/internal/failure_report.h"
#include "muster/train/internal/live_task.h"
#include "muster/train/internal/watchdog.h"

namespace muster::inline v0_1 {
namespace {

using internal::live_seconds;
using internal::LiveTask;
using internal::LiveTaskOptions;
using internal::seconds_of;

std::string next_run() {
  static std::atomic<int64_t> runs = 0;
  return fmt::format("run {} of this process", ++runs);
}

// The folder that holds before all others.
std::string asked_folder() { return Environment::process().get_or("MUSTER_LIVE_DIR", ""); }

}  // namespace

// The watchdog asks for it from its thread.
struct TaskWatch::Folder {
  std::mutex mutex;
  std::string path;
};

TaskWatch::TaskWatch(const Options& options)
    : options_(options),
      run_(next_run()),
      folder_(std::make_shared<Folder>()),
      asked_(!asked_folder().empty()) {
  show_in(options_.folder);
  show_in(asked_folder());
  show_in(command::job_dir());
  watchdog_ = internal::watchdog_of({.seconds = options_.watchdog,
                                     .is_chief = options_.place.in_chief_process,
                                     .at_own_pace = !options_.place.in_sync,
                                     .run = run_,
                                     .fs = options_.fs,
                                     .folder = [folder = folder_] {
                                       const std::lock_guard lock(folder->mutex);
                                       return folder->path;
                                     }});
}

TaskWatch::~TaskWatch() = default;

void TaskWatch::show_in(const std::string& folder) {
  if (folder.empty()) return;
  {
    const std::lock_guard lock(folder_->mutex);
    if (!folder_->path.empty()) return;
    folder_->path = folder;
  }
  if (begun_) show();
}

void TaskWatch::begin(bool trains) {
  if (begun_ || (!trains && !asked_)) return;
  begun_ = true;
  show();
}

void TaskWatch::show() {
  // Only this thread changes it.
  if (live_ != nullptr || folder_->path.empty()) return;
  live_ = std::make_unique<LiveTask>(
      LiveTaskOptions{
          .model_dir = folder_->path, .fs = options_.fs, .every = live_seconds(), .run = run_},
      options_.place);
}

void TaskWatch::tell(int64_t last_step) {
  if (live_ != nullptr && live_->wants_news()) live_->tell({.last_step = last_step});
}

void TaskWatch::end(const Error* error) noexcept {
  watchdog_.reset();
  if (!std::exchange(ended_, true) && error != nullptr && options_.place.processes > 1) {
    int64_t step = 0;
    for (const plan::ActivityNow& one : plan::activities())
      if (one.run == run_) step = std::max(step, one.step);
    internal::report_failure(options_.fs, folder_->path, options_.place.name(), step, *error);
  }
  if (live_ != nullptr) live_->end(error);
}

double watchdog_seconds() { return seconds_of("MUSTER_WATCHDOG_SECONDS", 30); }

void check_watch_variables() {
  (void)watchdog_seconds();
  (void)live_seconds();
}

void serve_in_view(const distribute::Strategy& strategy, const distribute::StartOptions& start,
                   const distribute::BuildModel& build, const std::string& folder) {
  TaskWatch watch({.place = {.process = -1,
                             .in_chief_process = false,
                             .task = plan::readable_task(start.cluster.task.name()),
                             .in_sync = false},
                   .folder = folder,
                   .fs = start.fs});
  watch.show_in(start.model_dir);
  watch.begin(/*trains=*/true);
  plan::ListedActivity activity(plan::readable_task(start.cluster.task.name()), watch.run());
  const plan::OnActivity on(activity);
  activity.enter(plan::Activity::kServing);
  try {
    strategy.serve(start, build);
    watch.end(nullptr);
  } catch (...) {
    const Error error = current_error();
    watch.end(&error);
    throw;
  }
}

}  // namespace muster::inline v0_1
