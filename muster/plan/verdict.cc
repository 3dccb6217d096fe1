#include "muster/plan/verdict.h"

#include <fmt/format.h>

namespace muster::inline v0_1::plan {

std::string MissingTask::describe() const {
  std::string name = readable_task(task);
  if (!address.empty()) name += " at " + address;
  if (!where.empty()) name += ", " + where;
  return fmt::format("{} ({:.0f} s)", name, seconds);
}

}  // namespace muster::inline v0_1::plan
