// The settings that all replicas of a run must share, and how it saves. Thread safety: pure
// functions.
#pragma once

#include <cstdint>

#include "muster/distribute/agree.h"
#include "muster/train/run_saves.h"
#include "muster/train/trainer.h"

namespace muster::inline v0_1 {

// The options of a run by the names that users know.
distribute::Settings settings_of(const TrainerOptions& options, uint64_t seed);

// Where and how often it saves.
RunSavesOptions saves_of(const TrainerOptions& options);

}  // namespace muster::inline v0_1
