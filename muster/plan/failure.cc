#include "muster/plan/failure.h"

#include <fmt/format.h>

namespace muster::inline v0_1::plan {

std::string readable_task(std::string_view task) {
  const size_t colon = task.rfind(':');
  if (colon == std::string_view::npos) return std::string(task);
  const std::string_view type = task.substr(0, colon), index = task.substr(colon + 1);
  if (index == "0" && (type == "chief" || type == "master")) return std::string(type);
  return fmt::format("{} {}", type, index);
}

std::string Failure::describe() const {
  const std::string where = place_of(phase, step);
  if (task.empty()) return fmt::format("connections between tasks broke {}: {}", where, reason);
  if (kind == ErrorKind::kPeerLost)
    return fmt::format("{} was lost, last heard of {}: {}", readable_task(task), where, reason);
  if (kind == ErrorKind::kCancelled)
    return fmt::format("{} was stopped {}: {}", readable_task(task), where, reason);
  return fmt::format("{} failed {}: {}: {}", readable_task(task), where, muster::to_string(kind),
                     reason);
}

}  // namespace muster::inline v0_1::plan
