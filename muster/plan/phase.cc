#include "muster/plan/phase.h"

#include <fmt/format.h>

namespace muster::inline v0_1::plan {

std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::kJoining:
      return "joining";
    case Phase::kBuilding:
      return "building";
    case Phase::kTraining:
      return "training";
    case Phase::kSaving:
      return "saving";
    case Phase::kEvaluating:
      return "evaluating";
    case Phase::kWaiting:
      return "waiting";
    case Phase::kDone:
      return "done";
  }
  return "unknown";
}

std::string place_of(Phase phase, int64_t step) {
  return step >= 0 ? fmt::format("at step {} ({})", step, to_string(phase))
                   : fmt::format("while {}", to_string(phase));
}

}  // namespace muster::inline v0_1::plan
