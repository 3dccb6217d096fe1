#include "muster/jobs/task_error.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/launch/said_error.h"

namespace muster::inline v0_1::jobs {
namespace {

// After its error a task may say that it ends.
constexpr int kLooksBack = 200;

bool has_failed(const TaskStatus& task) { return task.state == JobState::kFailed; }

bool was_ended(const TaskStatus& task) { return ended_by_others(task.exit_code.value_or(0)); }

// Whether it was ended from outside: Ctrl-C, SIGTERM, SIGKILL.
bool was_stopped(const TaskStatus& task) {
  return was_ended(task) && *task.exit_code != exit_code(ErrorKind::kUnavailable);
}

// The failed tasks: first the one that the detail names, then those that ended by themselves.
std::vector<const TaskStatus*> in_order_of_blame(const JobStatus& status) {
  std::vector<const TaskStatus*> failed;
  for (const TaskStatus& task : status.tasks) {
    if (has_failed(task)) failed.push_back(&task);
  }
  std::ranges::stable_sort(failed, {}, [&](const TaskStatus* task) {
    // "worker-1: exit code 2", as targets write it.
    if (status.detail.find(task->name + ":") != std::string::npos) return 0;
    return was_ended(*task) ? 2 : 1;
  });
  return failed;
}

launch::SaidError error_in(const std::vector<std::string>& printed) {
  launch::SaidError error;
  for (const std::string& line : printed) error.add(line);
  return error;
}

bool follows_another(const std::string& error) {
  return launch::blames_another(error) || launch::repeats_another(error);
}

// The last words of one task.
struct Words {
  TaskError error;
  std::string first_line{};  // of an error that it printed; empty: none
};

// Reads the logs of tasks as long as there is time.
class Reader {
 public:
  Reader(Target& target, const JobRecord& record, std::chrono::milliseconds most)
      : target_(target), record_(record), end_(std::chrono::steady_clock::now() + most) {}

  Words words_of(const TaskStatus& task) {
    std::vector<std::string> printed;
    try {
      target_.logs(record_,
                   {.task = task.name,
                    .tail = kLooksBack,
                    .interrupted = [this] { return std::chrono::steady_clock::now() > end_; }},
                   [&](std::string_view line) { printed.emplace_back(line); });
    } catch (const Error&) {
      // If a log is gone, or cannot be read now, the state is shown without it.
    }
    Words words{.error = {.task = task.name, .exit_code = task.exit_code},
                .first_line = error_in(printed).first_line()};
    // The output of a task before it was ended from outside is no reason.
    words.error.said = !words.first_line.empty() || !was_stopped(task);
    words.error.lines = words.error.said
                            ? error_lines(printed)
                            : std::vector{launch::explain(exit_status_of(*task.exit_code))};
    return words;
  }

  bool has_time() const { return std::chrono::steady_clock::now() < end_; }

 private:
  Target& target_;
  const JobRecord& record_;
  const std::chrono::steady_clock::time_point end_;
};

}  // namespace

std::vector<std::string> error_lines(const std::vector<std::string>& printed) {
  if (const launch::SaidError error = error_in(printed); !error.empty()) return error.lines();
  std::vector<std::string> lines;
  for (auto line = printed.rbegin(); line != printed.rend() && lines.size() < 2; ++line) {
    if (!trim(*line).empty()) lines.insert(lines.begin(), *line);
  }
  return lines;
}

std::optional<TaskError> task_error_of(Target& target, const JobRecord& record,
                                       const JobStatus& status, std::chrono::milliseconds most) {
  // Each that follows another names it, or else the next may know more. Logs of other systems take
  // their time.
  constexpr size_t kMostLogs = 8;
  std::vector<const TaskStatus*> failed = in_order_of_blame(status);
  if (status.state != JobState::kFailed || failed.empty()) return std::nullopt;
  Reader reader(target, record, most);
  std::optional<TaskError> first;
  bool is_blamed = true;  // as the first is by the job's detail
  for (size_t looked = 0; looked < std::min(kMostLogs, failed.size()); ++looked) {
    if (looked > 0 && !reader.has_time()) break;
    Words words = reader.words_of(*failed[looked]);
    const bool follows = follows_another(words.first_line);
    if (!follows && !words.error.lines.empty() && (words.error.said || is_blamed))
      return words.error;
    if (!first) first = std::move(words.error);
    // The task that it names is next.
    const auto rest = failed.begin() + static_cast<std::ptrdiff_t>(looked) + 1;
    const std::string blamed = launch::task_blamed(words.first_line);
    const auto named = std::ranges::find(rest, failed.end(), blamed, &TaskStatus::name);
    is_blamed = named != failed.end();
    if (is_blamed) std::rotate(rest, named, named + 1);
  }
  return first && !first->lines.empty() ? first : std::nullopt;
}

void tell_who_failed(JobStatus& status, const TaskError& error) {
  const auto is_told = [&](const TaskStatus& task) {
    return task.name != error.task && task.exit_code &&
           status.detail == failure_of(task.name, *task.exit_code);
  };
  if (error.exit_code && std::ranges::any_of(status.tasks, is_told))
    status.detail = failure_of(error.task, *error.exit_code);
}

}  // namespace muster::inline v0_1::jobs
