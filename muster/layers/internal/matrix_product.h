// Computes input x kernel + bias; its backward writes the kernel's gradient to its destination.
// Thread safety: pure functions.
#pragma once

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::internal {

// `input` [batch, features], `kernel` [features, units], `bias` [units] or undefined; gives
// [batch, units]: at::addmm, with all its derivatives.
Tensor matrix_product(const Tensor& input, const Tensor& kernel, const Tensor& bias);

// Returns the gradient of `kernel`, input^T x gradient, of [n, features] and [n, units]. It is
// written to its destination, unless autograd records its inputs. A kernel of bfloat16 has a
// gradient of bfloat16, computed from numbers rounded to that.
Tensor kernel_gradient(const Tensor& input, const Tensor& kernel, const Tensor& gradient);

}  // namespace muster::inline v0_1::internal
