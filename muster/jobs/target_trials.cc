#include "muster/jobs/target_trials.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/launch/supervise.h"

namespace muster::inline v0_1::jobs {
namespace {

constexpr const char* kEnded = "ended";  // of JobRecord::details: the exit code
// A program that fails says why at its end.
constexpr int kLastLines = 200;
constexpr Duration kEndLook = std::chrono::milliseconds(200);

JobStore store_of(const JobRecord& search) { return JobStore(join_path(search.folder, "trials")); }

// A line of a log without the task's name in front: "[worker-0] error: ...".
std::string_view without_task(std::string_view line) {
  const size_t end = line.find("] ");
  return line.starts_with('[') && end != std::string_view::npos ? line.substr(end + 2) : line;
}

// A line of the log without its time, which the search's own line has: "E 12:03:45 NotFound: ...".
std::string_view without_time(std::string_view line) {
  const size_t end = line.find(' ', 2);
  return line.starts_with("E ") && end != std::string_view::npos ? line.substr(end + 1) : line;
}

bool runs(const JobRecord& record, Target& target) {
  if (record.details.contains(kEnded)) return false;
  // Whoever submitted it was killed before its target had said by what name it knows it.
  if (record.id.empty() && target.name() != "local") {
    log::warning(fmt::format("the submission of {} did not end: look on {} whether it runs",
                             record.name, target.name()));
    return false;
  }
  return goes_on(target.status(record).state);
}

}  // namespace

void TargetTrials::start(int number, const JobSpec& job) {
  const JobStore store = store_of(search_);
  JobRecord record;
  record.name = job.name;
  record.target = target_.name();
  record.folder = join_path(store.folder(), fmt::format("{}", number));
  record.job_dir = job.job_dir;
  record.command = search_.command;
  record.submitted = clock_.wall_seconds();
  // What is there is of a search that was interrupted.
  local_file_system().remove_tree(record.folder).value();
  local_file_system().make_directories(record.folder).value();
  // Whoever is killed meanwhile leaves this, by which the trial is found.
  store.save(record);
  target_.submit(job, record);
  store.save(record);
  trials_[number] = {std::move(record), clock_.now()};
}

std::optional<int> TargetTrials::exit_code(int number) {
  Entry& trial = trials_.at(number);
  const auto ended = [&](int code) {
    trial.record.details[kEnded] = std::to_string(code);
    store_of(search_).save(trial.record);
    return code;
  };
  JobStatus status;
  try {
    status = target_.status(trial.record);
  } catch (const Error& error) {
    log::warning(fmt::format("trial {}: {}", number, error.message()));
  }
  switch (status.state) {
    case JobState::kQueued:
    case JobState::kRunning:
    case JobState::kEnding:
      trial.last_seen = clock_.now();
      return std::nullopt;
    case JobState::kSucceeded:
      return ended(0);
    case JobState::kFailed:
      return ended(status.exit_code.value_or(1));
    case JobState::kCancelled:
      return ended(status.exit_code.value_or(143));
    case JobState::kUnknown:
      break;
  }
  if (clock_.now() - trial.last_seen < kForgotten) return std::nullopt;
  log::warning(fmt::format("trial {}: nothing was heard of the job {} on {} for 10 minutes", number,
                           trial.record.name, target_.name()));
  return 1;
}

std::string TargetTrials::last_words(int number) {
  std::string error, last;
  try {
    target_.logs(trials_.at(number).record, {.tail = kLastLines}, [&](std::string_view line) {
      const std::string_view words = trim(without_task(line));
      if (launch::is_error_line(words)) error = without_time(words);
      // What starts the tasks says only that one failed.
      const bool of_starter = line.starts_with("[muster] ") || line.starts_with("[slurm] ");
      if (!words.empty() && !of_starter) last = words;
    });
  } catch (const Error& failure) {
    // The exit code is told all the same.
    log::debug(fmt::format("the log of trial {}: {}", number, failure.message()));
  }
  return error.empty() ? last : error;
}

std::string TargetTrials::log_of(int number) const {
  return fmt::format("muster jobs logs --task={} {}", trial_name(number), search_.name);
}

void TargetTrials::stop(int number) { target_.cancel(trials_.at(number).record); }

std::map<int, JobRecord> trial_records(const JobRecord& search) {
  std::map<int, JobRecord> records;
  for (JobRecord& record : store_of(search).list()) {
    if (const auto number = parse_int(base_name(record.folder)))
      records.emplace(static_cast<int>(*number), std::move(record));
  }
  return records;
}

std::string trial_name(int number) { return fmt::format("trial-{}", number); }

std::vector<int> running_trials(const JobRecord& search, Target& target) {
  std::vector<int> running;
  for (const auto& [number, record] : trial_records(search)) {
    if (runs(record, target)) running.push_back(number);
  }
  return running;
}

int cancel_trials(const JobRecord& search, Target& target) {
  const std::map<int, JobRecord> records = trial_records(search);
  const std::vector<int> running = running_trials(search, target);
  for (const int number : running) target.cancel(records.at(number));
  return static_cast<int>(running.size());
}

void end_trials(const JobRecord& search, Target& target, Clock& clock, Duration limit) {
  const int count = cancel_trials(search, target);
  if (count == 0) return;
  log::info(fmt::format("trials of {} outlived it, and are ended: {}; they save first", search.name,
                        count));
  const TimePoint end = clock.now() + limit;
  for (;;) {
    const std::vector<int> running = running_trials(search, target);
    if (running.empty()) return;
    if (clock.now() > end) {
      throw Error(ErrorKind::kTimeout,
                  fmt::format("trial {} of the search {} was asked to end and runs on, on {}",
                              running.front(), search.name, target.name()),
                  fmt::format("wait for it and try again; what it prints: muster jobs logs "
                              "--task={} {}",
                              trial_name(running.front()), search.name));
    }
    clock.sleep_for(kEndLook);
  }
}

}  // namespace muster::inline v0_1::jobs
