#include "muster/jobs/seen_end.h"

#include <nlohmann/json.hpp>
#include <string>

#include "muster/base/file_system.h"
#include "muster/jobs/internal/status_json.h"

namespace muster::inline v0_1::jobs {
namespace {

constexpr const char* kOf = "submission";

std::string path_of(const JobRecord& record) { return join_path(record.folder, kEndFile); }

void keep(const JobRecord& record, const JobStatus& end) {
  nlohmann::ordered_json json = internal::to_json(end);
  json[kOf] = record.submission;
  // Where it cannot be written, as on a full disk, the target is asked again the next time.
  (void)local_file_system().write_atomically(
      path_of(record), json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace

std::optional<JobStatus> seen_end(const JobRecord& record) {
  const auto text = local_file_system().read_file(path_of(record));
  if (!text.ok()) return std::nullopt;
  try {
    const nlohmann::json json = nlohmann::json::parse(text.value());
    if (json.at(kOf) != record.submission) return std::nullopt;
    const JobStatus end = internal::status_from_json(json);
    return is_over(end) ? std::optional(end) : std::nullopt;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

JobStatus ended_or_asked(const JobRecord& record, const std::function<JobStatus()>& ask) {
  if (const auto end = seen_end(record)) return *end;
  const JobStatus status = ask();
  if (is_over(status)) keep(record, status);
  return status;
}

JobStatus asked_again(const JobRecord& record, const JobStatus& end,
                      const std::function<JobStatus()>& ask) {
  (void)local_file_system().remove_tree(path_of(record));
  JobStatus status = end;
  status.forgotten = end.forgotten || ask().forgotten;
  keep(record, status);
  return status;
}

}  // namespace muster::inline v0_1::jobs
