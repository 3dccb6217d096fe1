// The sum over the columns of a linear model, in one operation: a column has few numbers of an
// example, and a graph of operations for each would cost more than they do.
// Thread safety: pure functions.
#pragma once

#include <vector>

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::feature_column::internal {

// One column: amounts times rows of weights. All tensors are float32 but the places, and lie on the
// CPU.
struct LinearTerm {
  Tensor weights{};  // [n, units]; the only one that gets a gradient
  // Rows of the weights, int64 [batch, values]; below 0 for none. Undefined: all rows, in order.
  Tensor places{};
  // [batch, values], or [batch, n] if there are no places. Undefined: 1.
  Tensor amounts{};
};

// Whether a term is as it must be; others are left to LibTorch.
bool is_linear_term(const LinearTerm& term);

// Returns [batch, units]: the sum of `bias`, [units], and the terms, of which there is at least
// one.
Tensor linear_sum(const std::vector<LinearTerm>& terms, const Tensor& bias);

}  // namespace muster::inline v0_1::feature_column::internal
