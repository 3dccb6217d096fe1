// Where communicators note their calls: collective_history.h. Thread-safe.
#pragma once

#include <string_view>

#include "muster/collectives/internal/operation.h"
#include "muster/collectives/work.h"

namespace muster::inline v0_1::internal {

// `transport` lives as long as the process. `operation` has its number as sequence.
void note_collective(std::string_view transport, int rank, int size, const Operation& operation,
                     const Work& work);

}  // namespace muster::inline v0_1::internal
