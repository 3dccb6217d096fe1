// Layers that change the shape of their input.
// Thread safety: immutable values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// Reshapes [batch, ...] to [batch, target_shape]; one size may be -1, and is computed from the
// others. Throws InvalidArgument for a second -1 and for other sizes below 0, and, when called, for
// an input with another number of elements.
MUSTER_EXPORT Layer Reshape(std::vector<int64_t> target_shape, std::string name = {});

// Reshapes [batch, ...] to [batch, the product of the rest], rows in memory order, and [batch] to
// [batch, 1].
MUSTER_EXPORT Layer Flatten(std::string name = {});

// Reorders the axes after the batch: axis i of the result is axis dims[i - 1] of the input; both
// count from 1. Throws InvalidArgument unless dims is a permutation of 1, 2, ..., n, and, when
// called, for an input without n + 1 axes.
MUSTER_EXPORT Layer Permute(std::vector<int64_t> dims, std::string name = {});

// Repeats vectors: [batch, features] -> [batch, n, features]. Throws InvalidArgument for n < 1.
MUSTER_EXPORT Layer RepeatVector(int64_t n, std::string name = {});

}  // namespace muster::inline v0_1
