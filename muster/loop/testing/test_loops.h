// Tests of loops share a scope that knows no cluster, and points on a plane.
// Thread safety: pure functions.
#pragma once

#include <cstdint>

#include "muster/data/dataset.h"
#include "muster/loop/scope.h"

namespace muster::inline v0_1::distribute {

// Options of a scope in a process that knows no cluster.
ScopeOptions alone(uint64_t seed = 0);

// Returns x float32[2], y = 3 x0 - 2 x1 + 1.
Dataset points(int64_t rows);

}  // namespace muster::inline v0_1::distribute
