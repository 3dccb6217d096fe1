#include "muster/estimator/internal/lease_notes.h"

#include <fmt/format.h>
#include <unistd.h>

#include "muster/base/strings.h"

namespace muster::inline v0_1::internal {
namespace {

constexpr std::string_view kThrough = "training is through at step ";
constexpr std::string_view kFailed = "training failed in run ";

}  // namespace

std::string note_of_end(std::optional<int64_t> step) {
  return step ? fmt::format("{}{}", kThrough, *step) : std::string();
}

std::optional<int64_t> end_in_note(const std::string& note) {
  if (!note.starts_with(kThrough)) return std::nullopt;
  return parse_int(note.substr(kThrough.size()));
}

std::string note_of_failure(const Failure& failure) {
  return fmt::format("{}{}: {}", kFailed, failure.run,
                     failure.message.substr(0, failure.message.find('\n')));
}

std::optional<Failure> failure_in_note(const std::string& note) {
  if (!note.starts_with(kFailed)) return std::nullopt;
  const std::string rest = note.substr(kFailed.size());
  const size_t colon = rest.find(": ");
  if (colon == std::string::npos) return std::nullopt;
  return Failure{rest.substr(0, colon), rest.substr(colon + 2)};
}

std::string describe_process(const cluster::Task& task) {
  char host[256] = "?";
  gethostname(host, sizeof host - 1);
  return fmt::format("{}, process {} on {}", task.name(), getpid(), host);
}

}  // namespace muster::inline v0_1::internal
