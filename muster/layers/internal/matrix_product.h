// Computes input x kernel + bias; its backward writes the kernel's gradient where it is wanted.
// Thread safety: pure functions.
#pragma once

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::internal {

// `input` [batch, features], `kernel` [features, units], `bias` [units] or undefined; gives
// [batch, units]: at::addmm, with all its derivatives.
Tensor matrix_product(const Tensor& input, const Tensor& kernel, const Tensor& bias);

// Gives the gradient of `kernel`, input^T x gradient, of [n, features] and [n, units]. It is
// written where it is wanted, unless autograd records what it is made of. A kernel of bfloat16 has
// one of bfloat16, of what is rounded to that.
Tensor kernel_gradient(const Tensor& input, const Tensor& kernel, const Tensor& gradient);

}  // namespace muster::inline v0_1::internal
