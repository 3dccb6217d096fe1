#include "muster/estimator/internal/task_leases.h"

#include <fmt/format.h>
#include <unistd.h>

#include "muster/base/strings.h"

namespace muster::inline v0_1::internal {
namespace {

constexpr std::string_view kThrough = "training is through at step ";
constexpr std::string_view kFailed = "training failed: ";

}  // namespace

std::string note_of_end(std::optional<int64_t> step) {
  return step ? fmt::format("{}{}", kThrough, *step) : std::string();
}

std::optional<int64_t> end_in_note(const std::string& note) {
  if (!note.starts_with(kThrough)) return std::nullopt;
  return parse_int(note.substr(kThrough.size()));
}

std::string note_of_failure(const std::string& message) {
  return fmt::format("{}{}", kFailed, message.substr(0, message.find('\n')));
}

std::optional<std::string> failure_in_note(const std::string& note) {
  if (!note.starts_with(kFailed)) return std::nullopt;
  return note.substr(kFailed.size());
}

std::string describe_process(const cluster::Task& task) {
  char host[256] = "?";
  gethostname(host, sizeof host - 1);
  return fmt::format("{}, process {} on {}", task.name(), getpid(), host);
}

}  // namespace muster::inline v0_1::internal
