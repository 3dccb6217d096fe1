// The settings that all replicas of a run must share. Thread safety: a pure function.
#pragma once

#include <cstdint>

#include "muster/distribute/agree.h"
#include "muster/train/trainer.h"

namespace muster::inline v0_1 {

// The options of a run by the names that users know.
distribute::Settings settings_of(const TrainerOptions& options, uint64_t seed);

}  // namespace muster::inline v0_1
