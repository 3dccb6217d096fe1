#include "muster/jobs/target.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "muster/base/error.h"
#include "muster/base/exit_code.h"
#include "muster/base/nearest.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1::jobs {

std::string_view to_string(JobState state) {
  switch (state) {
    case JobState::kQueued:
      return "queued";
    case JobState::kRunning:
      return "running";
    case JobState::kEnding:
      return "ending";
    case JobState::kSucceeded:
      return "succeeded";
    case JobState::kFailed:
      return "failed";
    case JobState::kCancelled:
      return "cancelled";
    case JobState::kUnknown:
      break;
  }
  return "unknown";
}

bool is_final(JobState state) {
  return state == JobState::kSucceeded || state == JobState::kFailed ||
         state == JobState::kCancelled;
}

bool goes_on(JobState state) {
  return state == JobState::kQueued || state == JobState::kRunning || state == JobState::kEnding;
}

bool ended_by_others(int exit_code) {
  return std::ranges::find(kRetriedExitCodes, exit_code) != kRetriedExitCodes.end();
}

launch::ExitStatus exit_status_of(int exit_code) {
  constexpr int kSignals = 128, kMostSignals = 64;
  const bool by_signal = exit_code > kSignals && exit_code <= kSignals + kMostSignals &&
                         (exit_code == kSignals + SIGKILL || !ended_by_others(exit_code));
  if (by_signal) return {.signal = exit_code - kSignals};
  return {.code = exit_code};
}

std::string failure_of(const std::string& task, int exit_code) {
  const launch::ExitStatus end = exit_status_of(exit_code);
  return fmt::format(
      "{}: {}", task,
      end.signal != 0 ? launch::explain(end) : fmt::format("exit code {}", end.code));
}

bool tasks_go_on(const JobStatus& status) {
  return std::ranges::any_of(status.tasks,
                             [](const TaskStatus& task) { return goes_on(task.state); });
}

bool is_over(const JobStatus& status) {
  return is_final(status.state) && !status.may_return && status.left == 0 &&
         std::ranges::all_of(status.tasks,
                             [](const TaskStatus& task) { return is_final(task.state); });
}

void tell_of_cancelling(JobStatus& status) {
  if (status.state != JobState::kCancelled) return;
  // Exit codes of launchers and programs for SIGTERM, SIGUSR1 and Ctrl-C; and for SIGKILL, which
  // follows if these have no effect.
  constexpr std::array kAsAsked = {kExitTerminated, kExitRestart, kExitInterrupted};
  std::string killed;
  bool others = false;
  for (TaskStatus& task : status.tasks) {
    const int code = task.exit_code.value_or(0);
    const bool as_asked = std::ranges::find(kAsAsked, code) != kAsAsked.end();
    if (task.state == JobState::kFailed && (as_asked || code == kExitKilled))
      task.state = JobState::kCancelled;
    if (code == kExitKilled && killed.empty()) killed = task.name;
    others = others || task.state == JobState::kFailed;
  }
  if (!killed.empty()) {
    status.detail = killed + " did not end when it was asked to, and was killed";
  } else if (const bool ran = std::ranges::any_of(
                 status.tasks, [](const TaskStatus& task) { return task.exit_code.has_value(); });
             ran && !others) {
    status.detail = "its tasks ended as they were asked to";
  }
}

UnclearSubmission::UnclearSubmission(const Error& error, const JobRecord& record)
    : Error(error.kind(),
            fmt::format("{}; whether {} has the job {} now is not known", error.message(),
                        record.target, record.name),
            fmt::format(
                "look for it with muster jobs status {0}; if it does not exist, it may still "
                "appear: wait for some minutes before muster jobs remove {0}, and submit it again",
                record.name)) {}

std::optional<std::string> meant_by(const std::string& name, std::vector<std::string> names) {
  constexpr size_t kShort = 4;
  const auto without_digits = [](std::string text) {
    std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
    return text;
  };
  if (name.size() < kShort) return std::nullopt;
  std::erase_if(
      names, [&](const std::string& one) { return without_digits(one) == without_digits(name); });
  return nearest(name, names);
}

void check_task(const JobRecord& record, const std::string& task,
                const std::vector<std::string>& tasks) {
  if (std::ranges::find(tasks, task) != tasks.end()) return;
  const auto near = meant_by(task, tasks);
  throw not_found(
      fmt::format("the job {} has no task '{}'; it has {}", record.name, task, join_quoted(tasks)),
      near ? fmt::format("did you mean {}?", *near) : "take one of these");
}

}  // namespace muster::inline v0_1::jobs
