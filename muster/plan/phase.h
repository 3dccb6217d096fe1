// The phase of a task or a replica, as the others of its group know it. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "muster/base/export.h"

namespace muster::inline v0_1::plan {

// The phase of a task or a replica.
enum class Phase {
  kJoining,
  kBuilding,  // the first call of model_fn, restore, warm start
  kTraining,  // steps advance; only here and in kWaiting does no progress count as stuck
  kSaving,    // has a limit of its own
  kEvaluating,
  kWaiting,  // at a barrier or for a key
  kDone,
};

// Whether it may keep others waiting for longer than a step takes.
constexpr bool is_busy(Phase phase) {
  return phase == Phase::kBuilding || phase == Phase::kSaving || phase == Phase::kEvaluating;
}

// "joining", "building", "training", ...
std::string_view to_string(Phase phase);

// "at step 12 (training)"; before the first step (-1) "while joining".
MUSTER_PART_EXPORT std::string place_of(Phase phase, int64_t step);

}  // namespace muster::inline v0_1::plan
