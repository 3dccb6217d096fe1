#include "muster/jobs/final_status.h"

#include <nlohmann/json.hpp>
#include <string>

#include "muster/base/file_system.h"
#include "muster/jobs/internal/status_json.h"

namespace muster::inline v0_1::jobs {
namespace {

using nlohmann::ordered_json;

constexpr const char* kOfSubmission = "submission";
constexpr const char* kTaskError = "error";

std::string path_of(const JobRecord& record) { return join_path(record.folder, kEndFile); }

void write_end(const JobRecord& record, const ordered_json& end) {
  // If it cannot be written, as on a full disk, the target is asked again the next time.
  (void)local_file_system().write_atomically(
      path_of(record), end.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

void keep(const JobRecord& record, const JobStatus& end) {
  ordered_json json = internal::to_json(end);
  json[kOfSubmission] = record.submission;
  write_end(record, json);
}

// The saved end of this submission.
std::optional<ordered_json> end_file_of(const JobRecord& record) {
  const auto text = local_file_system().read_file(path_of(record));
  if (!text.ok()) return std::nullopt;
  const auto json = ordered_json::parse(text.value(), nullptr, /*allow_exceptions=*/false);
  const bool is_its = json.is_object() && json.contains(kOfSubmission) &&
                      json.at(kOfSubmission) == record.submission;
  return is_its ? std::optional(json) : std::nullopt;
}

}  // namespace

std::optional<JobStatus> final_status(const JobRecord& record) {
  const auto json = end_file_of(record);
  if (!json) return std::nullopt;
  try {
    const JobStatus end = internal::status_from_json(*json);
    return is_over(end) ? std::optional(end) : std::nullopt;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

JobStatus final_or_current_status(const JobRecord& record, const std::function<JobStatus()>& ask) {
  if (const auto end = final_status(record)) return *end;
  const JobStatus status = ask();
  if (is_over(status)) keep(record, status);
  return status;
}

JobStatus recheck_status(const JobRecord& record, const JobStatus& end,
                         const std::function<JobStatus()>& ask) {
  (void)local_file_system().remove_tree(path_of(record));
  JobStatus status = end;
  status.forgotten = end.forgotten || ask().forgotten;
  keep(record, status);
  return status;
}

std::optional<TaskError> final_or_current_error(
    const JobRecord& record, const std::function<std::optional<TaskError>()>& ask) {
  auto json = end_file_of(record);
  if (json && json->contains(kTaskError)) {
    try {
      return internal::error_from_json(json->at(kTaskError));
    } catch (const nlohmann::json::exception&) {
      // Then the log is read.
    }
  }
  const std::optional<TaskError> error = ask();
  if (json && error) {
    (*json)[kTaskError] = internal::to_json(*error);
    write_end(record, *json);
  }
  return error;
}

}  // namespace muster::inline v0_1::jobs
