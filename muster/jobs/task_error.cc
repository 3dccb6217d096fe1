#include "muster/jobs/task_error.h"

#include <algorithm>
#include <string_view>

#include "muster/base/error.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1::jobs {
namespace {

constexpr size_t kMostLines = 20;
// Behind its error a task may say that it ends.
constexpr int kLooksBack = 200;

bool has_failed(const TaskStatus& task) { return task.state == JobState::kFailed; }

bool was_ended(const TaskStatus& task) { return ended_by_others(task.exit_code.value_or(0)); }

// Nullptr where none has failed.
const TaskStatus* failed_first(const JobStatus& status) {
  const TaskStatus* found = nullptr;
  for (const TaskStatus& task : status.tasks) {
    if (!has_failed(task)) continue;
    // "worker-1: exit code 2", as targets write it.
    if (status.detail.find(task.name + ":") != std::string::npos) return &task;
    if (found == nullptr || (was_ended(*found) && !was_ended(task))) found = &task;
  }
  return found;
}

}  // namespace

std::vector<std::string> error_lines(const std::vector<std::string>& printed) {
  const auto is_error = [](const std::string& line) { return line.starts_with("E "); };
  const auto last = std::find_if(printed.rbegin(), printed.rend(), is_error);
  std::vector<std::string> lines;
  if (last != printed.rend()) {
    auto line = last.base() - 1;
    do {
      lines.push_back(*line++);
    } while (line != printed.end() && line->starts_with(' ') && lines.size() < kMostLines);
    return lines;
  }
  for (auto line = printed.rbegin(); line != printed.rend() && lines.size() < 2; ++line) {
    if (!trim(*line).empty()) lines.insert(lines.begin(), *line);
  }
  return lines;
}

std::optional<TaskError> task_error_of(Target& target, const JobRecord& record,
                                       const JobStatus& status, std::chrono::milliseconds most) {
  const TaskStatus* const task = failed_first(status);
  if (status.state != JobState::kFailed || task == nullptr) return std::nullopt;
  std::vector<std::string> printed;
  const auto end = std::chrono::steady_clock::now() + most;
  try {
    target.logs(record,
                {.task = task->name,
                 .tail = kLooksBack,
                 .interrupted = [&] { return std::chrono::steady_clock::now() > end; }},
                [&](std::string_view line) { printed.emplace_back(line); });
  } catch (const Error&) {
    // A log that is gone, or cannot be had now, says nothing; the state stands without it.
  }
  TaskError error{.task = task->name, .exit_code = task->exit_code, .lines = error_lines(printed)};
  return error.lines.empty() ? std::nullopt : std::optional(error);
}

}  // namespace muster::inline v0_1::jobs
