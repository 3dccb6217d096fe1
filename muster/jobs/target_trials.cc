#include "muster/jobs/target_trials.h"

#include <fmt/format.h>

#include <set>
#include <string_view>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/exit_code.h"
#include "muster/base/file_system.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/jobs/submit.h"
#include "muster/launch/supervise.h"

namespace muster::inline v0_1::jobs {
namespace {

// A key of JobRecord::details: the exit code of a trial that was seen to end, or kNeverBegan.
constexpr const char* kEnded = "ended";
constexpr const char* kNeverBegan = "it never began";
constexpr const char* kStarts = "starts";  // of JobRecord::details: how often the trial was started
// A program that fails says why at its end.
constexpr int kLastLines = 200;
// How a log continues an error with the probable meaning.
constexpr std::string_view kHint = "hint: ", kMeant = "hint: did you mean ";
constexpr Duration kEndLook = std::chrono::milliseconds(200);
constexpr Duration kComeLook = std::chrono::seconds(2);

JobStore store_of(const JobRecord& search) { return JobStore(join_path(search.folder, "trials")); }

// A line of a log without the task's name in front: "[worker-0] error: ...".
std::string_view without_task(std::string_view line) {
  const size_t end = line.find("] ");
  return line.starts_with('[') && end != std::string_view::npos ? line.substr(end + 2) : line;
}

// On a target, jobs that have ended keep their names.
std::string name_of_start(const std::string& name, int64_t start) {
  return start == 1 ? name : fmt::format("{}-r{}", name, start);
}

// Removes the content of a trial's folder except for its record.
void empty_folder(const std::string& folder) {
  for (const std::string& file : local_file_system().list_directory(folder).value()) {
    if (file != kRecordFile) local_file_system().remove_tree(join_path(folder, file)).value();
  }
}

}  // namespace

TargetTrials::TargetTrials(Target& target, const JobRecord& search, Clock& clock)
    : target_(target),
      search_(search),
      clock_(clock),
      store_(store_of(search)),
      before_(trial_records(search)) {}

void TargetTrials::start(int number, const JobSpec& job) {
  int64_t start = 1;
  if (const auto it = before_.find(number); it != before_.end()) {
    const auto starts = it->second.details.find(kStarts);
    start = 1 + (starts == it->second.details.end() ? 1 : parse_int(starts->second).value_or(1));
  }
  JobSpec named = job;
  named.name = name_of_start(job.name, start);
  JobRecord record;
  record.name = named.name;
  record.target = target_.name();
  record.folder = join_path(store_.folder(), fmt::format("{}", number));
  record.job_dir = job.job_dir;
  record.command = search_.command;
  record.submitted = clock_.wall_seconds();
  record.submission = new_submission();
  record.details[kStarts] = std::to_string(start);
  target_.locate(named, record);
  local_file_system().make_directories(record.folder).value();
  // If the process is killed from now on, this record remains, by which the trial is found.
  store_.save(record);
  before_[number] = record;
  empty_folder(record.folder);
  try {
    target_.submit(named, record);
  } catch (const UnclearSubmission& error) {
    log::warning(fmt::format("trial {}: {}", number, error.message()));
    record.id.clear();
  } catch (...) {
    record.details[kEnded] = kNeverBegan;
    store_.save(record);
    throw;
  }
  store_.save(record);
  trials_[number] = {std::move(record), clock_.now()};
}

bool TargetTrials::is_known(Entry& trial) { return find_submitted(store_, target_, trial.record); }

std::optional<int> TargetTrials::exit_code(int number) {
  Entry& trial = trials_.at(number);
  const auto ended = [&](int code) {
    trial.record.details[kEnded] = std::to_string(code);
    store_.save(trial.record);
    return code;
  };
  JobStatus status;
  try {
    if (is_known(trial)) {
      status = target_.status(trial.record);
    } else if (trial.given_up) {
      return 1;
    }
    trial.told = false;
  } catch (const Error& error) {
    // Once for each time that its target is away: it is asked every second.
    if (!std::exchange(trial.told, true))
      log::warning(fmt::format("trial {}: {}", number, error.message()));
  }
  switch (status.state) {
    case JobState::kQueued:
    case JobState::kRunning:
    case JobState::kEnding:
      trial.last_seen = clock_.now();
      trial.waits = false;
      return std::nullopt;
    case JobState::kSucceeded:
      return ended(0);
    case JobState::kFailed:
      if (status.was_taken_away && clock_.now() - trial.last_seen < kForgotten) {
        if (!std::exchange(trial.waits, true)) {
          log::info(fmt::format(
              "trial {}: {}; waiting for up to {} minutes whether it begins again", number,
              status.detail, std::chrono::ceil<std::chrono::minutes>(kForgotten).count()));
        }
        return std::nullopt;
      }
      trial.left = !is_over(status);
      return ended(status.exit_code.value_or(1));
    case JobState::kCancelled:
      return ended(status.exit_code.value_or(kExitTerminated));
    case JobState::kUnknown:
      break;
  }
  if (clock_.now() - trial.last_seen < kForgotten) return std::nullopt;
  log::warning(fmt::format("trial {}: nothing was heard of the job {} on {} for 10 minutes", number,
                           trial.record.name, target_.name()));
  // A trial whose status is unknown may still run.
  return status.forgotten ? ended(1) : 1;
}

// If roles do not know of each other, the roles of a failed trial would be started again, and hold
// their nodes.
void TargetTrials::end_the_rest(Entry& trial) {
  if (!std::exchange(trial.left, false)) return;
  try {
    target_.cancel(trial.record);
  } catch (const Error& error) {
    log::warning(fmt::format("{} has failed, and what is left of it could not be ended: {}",
                             trial.record.name, error.what()));
  }
}

std::string TargetTrials::last_words(int number) {
  Entry& trial = trials_.at(number);
  if (!was_submitted(trial.record)) return "";
  std::string error, last;
  bool is_error = false;  // the line before
  try {
    target_.logs(trial.record, {.tail = kLastLines}, [&](std::string_view line) {
      const std::string_view words = trim(without_task(line));
      // The suggested word is worth a few words; the rest of a hint is in the log.
      if (is_error && words.starts_with(kMeant))
        error +=
            fmt::format("; {}", words.substr(kHint.size(), words.find('?') + 1 - kHint.size()));
      is_error = launch::is_error_line(words);
      if (is_error) error = launch::error_words(words);
      // The program that starts the tasks says only that one failed.
      const bool of_starter = line.starts_with("[muster] ") || line.starts_with("[slurm] ");
      if (!words.empty() && !of_starter) last = words;
    });
  } catch (const Error& failure) {
    // The exit code is reported anyway.
    log::debug(fmt::format("the log of trial {}: {}", number, failure.message()));
  }
  end_the_rest(trial);  // with its pods go their logs
  return error.empty() ? last : error;
}

std::string TargetTrials::log_of(int number) const {
  return fmt::format("muster jobs logs --task={} {}", trial_name(number), search_.name);
}

void TargetTrials::stop(int number) {
  Entry& trial = trials_.at(number);
  if (is_known(trial)) return target_.cancel(trial.record);
  trial.given_up = true;
}

std::map<int, JobRecord> trial_records(const JobRecord& search) {
  std::map<int, JobRecord> records;
  for (JobRecord& record : store_of(search).list()) {
    if (const auto number = parse_int(base_name(record.folder)))
      records.emplace(static_cast<int>(*number), std::move(record));
  }
  return records;
}

std::string trial_name(int number) { return fmt::format("trial-{}", number); }

TrialsLeft trials_left(const JobRecord& search, Target& target, Clock& clock) {
  TrialsLeft left;
  JobStore store = store_of(search);
  for (auto& [number, record] : trial_records(search)) {
    if (record.details.contains(kEnded)) continue;
    const bool may_come = clock.wall_seconds() - record.submitted < to_seconds(kMayCome);
    if (!find_submitted(store, target, record)) {
      if (may_come) left.awaited.push_back(number);
      continue;
    }
    const JobState state = target.status(record).state;
    if (goes_on(state)) left.running.push_back(number);
  }
  return left;
}

int cancel_trials(const JobRecord& search, Target& target, Clock& clock) {
  const TrialsLeft left = trials_left(search, target, clock);
  const std::map<int, JobRecord> records = trial_records(search);
  for (const int number : left.running) target.cancel(records.at(number));
  if (!left.awaited.empty()) {
    throw Error(ErrorKind::kUnavailable,
                fmt::format("the submission of trial {} of the search {} to {} did not end, and it "
                            "may still come",
                            left.awaited.front(), search.name, target.name()),
                fmt::format("wait for some minutes, and cancel the search again: muster jobs "
                            "cancel {}",
                            search.name));
  }
  return static_cast<int>(left.running.size());
}

void end_trials(const JobRecord& search, Target& target, Clock& clock, Duration limit,
                const std::function<bool()>& interrupted) {
  std::set<int> asked;
  TimePoint end = clock.now();
  const TimePoint come = clock.now() + kMayCome;  // also if the machine's date was set back
  for (bool told = false; !interrupted();) {
    const TrialsLeft left = trials_left(search, target, clock);
    const std::map<int, JobRecord> records = trial_records(search);
    std::vector<int> found;
    for (const int number : left.running) {
      if (asked.insert(number).second) found.push_back(number);
    }
    if (!found.empty()) {
      log::info(fmt::format("trials of {} outlived it, and are ended: {}; they save first",
                            search.name, found.size()));
      end = clock.now() + limit;
    }
    for (const int number : found) target.cancel(records.at(number));
    const bool waits = !left.awaited.empty() && clock.now() < come;
    if (waits && !std::exchange(told, true)) {
      log::info(
          fmt::format("the submission of trial {} of {} to {} did not end: waiting for up to "
                      "{} minutes whether it comes",
                      left.awaited.front(), search.name, target.name(),
                      std::chrono::ceil<std::chrono::minutes>(kMayCome).count()));
    }
    if (left.running.empty() && !waits) return;
    if (!left.running.empty() && clock.now() > end) {
      throw Error(ErrorKind::kTimeout,
                  fmt::format("trial {} of the search {} was asked to end and runs on, on {}",
                              left.running.front(), search.name, target.name()),
                  fmt::format("wait for it and try again; what it prints: muster jobs logs "
                              "--task={} {}",
                              trial_name(left.running.front()), search.name));
    }
    clock.sleep_for(left.running.empty() ? kComeLook : kEndLook);
  }
}

}  // namespace muster::inline v0_1::jobs
