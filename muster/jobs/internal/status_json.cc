#include "muster/jobs/internal/status_json.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace muster::inline v0_1::jobs::internal {
namespace {

constexpr std::array kStates = {JobState::kQueued,    JobState::kRunning, JobState::kEnding,
                                JobState::kSucceeded, JobState::kFailed,  JobState::kCancelled,
                                JobState::kUnknown};

JobState state_of(const std::string& word) {
  for (const JobState state : kStates) {
    if (to_string(state) == word) return state;
  }
  return JobState::kUnknown;
}

nlohmann::ordered_json optional(const std::optional<int>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}
std::optional<int> optional(const nlohmann::json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<int>());
}

}  // namespace

nlohmann::ordered_json to_json(const JobStatus& status) {
  nlohmann::ordered_json tasks = nlohmann::ordered_json::array();
  for (const TaskStatus& task : status.tasks) {
    tasks.push_back({{"name", task.name},
                     {"state", to_string(task.state)},
                     {"exit_code", optional(task.exit_code)},
                     {"place", task.place}});
  }
  return {{"state", to_string(status.state)}, {"exit_code", optional(status.exit_code)},
          {"detail", status.detail},          {"restarts", status.restarts},
          {"forgotten", status.forgotten},    {"tasks", tasks}};
}

JobStatus status_from_json(const nlohmann::json& json) {
  JobStatus status{.state = state_of(json.at("state")),
                   .exit_code = optional(json.at("exit_code")),
                   .detail = json.at("detail"),
                   .restarts = json.at("restarts"),
                   .forgotten = json.value("forgotten", false)};
  for (const nlohmann::json& task : json.at("tasks")) {
    status.tasks.push_back({.name = task.at("name"),
                            .state = state_of(task.at("state")),
                            .exit_code = optional(task.at("exit_code")),
                            .place = task.value("place", "")});
  }
  return status;
}

nlohmann::ordered_json to_json(const TaskError& error) {
  return {{"task", error.task},
          {"exit_code", optional(error.exit_code)},
          {"said", error.said},
          {"lines", error.lines}};
}

TaskError error_from_json(const nlohmann::json& json) {
  return {.task = json.at("task"),
          .exit_code = optional(json.at("exit_code")),
          .lines = json.at("lines").get<std::vector<std::string>>(),
          .said = json.at("said")};
}

}  // namespace muster::inline v0_1::jobs::internal
