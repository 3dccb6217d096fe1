// Computes input x kernel + bias; its backward writes the kernel's gradient where it is wanted.
// Thread safety: pure functions.
#pragma once

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::internal {

// `input` [batch, features], `kernel` [features, units], `bias` [units] or undefined; gives
// [batch, units]: at::addmm, with all its derivatives.
Tensor matrix_product(const Tensor& input, const Tensor& kernel, const Tensor& bias);

}  // namespace muster::inline v0_1::internal
