// Kernels as LibTorch's convolutions want them.
// Thread safety: a pure function.
#pragma once

#include <cstdint>

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::internal {

// Gives a kernel [axes..., in, filters], for a convolution of `rows` images, as [filters, in,
// axes...], in memory as images are whose channels are last. Such a copy takes a fraction of what
// LibTorch takes to make the same of a view, which it would do in the forward and in the backward.
// The gradient is written where it is wanted. On the CPU; elsewhere, in a trace and for no rows it
// is a view.
Tensor filters_first(const Tensor& kernel, int64_t rows);

}  // namespace muster::inline v0_1::internal
