// The state of a job, and the error of its task, as JSON, in the files that keep it. Thread safety:
// pure functions.
#pragma once

#include <nlohmann/json.hpp>

#include "muster/jobs/target.h"
#include "muster/jobs/task_error.h"

namespace muster::inline v0_1::jobs::internal {

nlohmann::ordered_json to_json(const JobStatus& status);
// Throws nlohmann::json::exception for other JSON; it ignores additional keys.
JobStatus status_from_json(const nlohmann::json& json);

nlohmann::ordered_json to_json(const TaskError& error);
// Throws nlohmann::json::exception for other JSON.
TaskError error_from_json(const nlohmann::json& json);

}  // namespace muster::inline v0_1::jobs::internal
