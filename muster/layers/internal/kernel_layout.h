// Kernels as LibTorch's convolutions want them.
// Thread safety: a pure function.
#pragma once

#include <cstdint>

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::internal {

// Returns a kernel [axes..., in, filters], for a convolution of `rows` images, as [filters, in,
// axes...], in the memory layout of images whose channels are last. Such a copy takes a fraction of
// the time that LibTorch needs to make the same from a view, which it would do in the forward and
// in the backward. The gradient is written to its destination. On the CPU; elsewhere, in a trace
// and for no rows it is a view.
Tensor filters_first(const Tensor& kernel, int64_t rows);

}  // namespace muster::inline v0_1::internal
