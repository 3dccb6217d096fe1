// These values share checks, so that their messages read alike. Thread safety: pure functions.
#pragma once

#include <cstdint>

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::internal {

// Throws InvalidArgument "Hashing: num_bins is 0 | num_bins must be at least 1".
void check_at_least(const char* layer, const char* field, int64_t value, int64_t least);

// Returns integers as int64. Throws InvalidArgument "Hashing: expected integers, was given
// float32[2]".
Tensor to_int64(const Tensor& input, const char* layer);

}  // namespace muster::inline v0_1::internal
