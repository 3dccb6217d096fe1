// Memory for long tensors that one loop walks side by side, as an update walks weights, gradient
// and slots. Allocators place long tensors so that their addresses differ by powers of two; the
// caches of some processors then take them for the same lines, and the loop runs at a third of its
// speed. Thread safety: pure function.
#pragma once

#include <cstdint>

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// Returns a tensor [elements] full of `value`, of the dtype and device of `like`, aligned to 64
// bytes. Tensors with different places, from 0 to 15, are apart in the caches: each begins some 64
// KiB further than the one before. Short tensors, and tensors that are not on a CPU, need no place.
Tensor cache_colored(int64_t elements, double value, const Tensor& like, int64_t place);

}  // namespace muster::inline v0_1
