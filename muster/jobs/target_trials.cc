#include "muster/jobs/target_trials.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/log.h"

namespace muster::inline v0_1::jobs {

void TargetTrials::start(int number, const JobSpec& job) {
  JobRecord record;
  record.name = job.name;
  record.target = target_.name();
  record.folder = join_path(search_.folder, fmt::format("trials/{}", number));
  record.job_dir = job.job_dir;
  record.command = search_.command;
  record.submitted = clock_.wall_seconds();
  // What is there is of a search that was interrupted.
  local_file_system().remove_tree(record.folder).value();
  local_file_system().make_directories(record.folder).value();
  target_.submit(job, record);
  trials_[number] = {std::move(record), clock_.now()};
}

std::optional<int> TargetTrials::exit_code(int number) {
  Entry& trial = trials_.at(number);
  JobStatus status;
  try {
    status = target_.status(trial.record);
  } catch (const Error& error) {
    log::warning(fmt::format("trial {}: {}", number, error.message()));
  }
  switch (status.state) {
    case JobState::kQueued:
    case JobState::kRunning:
      trial.last_seen = clock_.now();
      return std::nullopt;
    case JobState::kSucceeded:
      return 0;
    case JobState::kFailed:
      return status.exit_code.value_or(1);
    case JobState::kCancelled:
      return status.exit_code.value_or(143);
    case JobState::kUnknown:
      break;
  }
  if (clock_.now() - trial.last_seen < kForgotten) return std::nullopt;
  log::warning(fmt::format("trial {}: nothing was heard of the job {} on {} for 10 minutes", number,
                           trial.record.name, target_.name()));
  return 1;
}

void TargetTrials::stop(int number) { target_.cancel(trials_.at(number).record); }

}  // namespace muster::inline v0_1::jobs
