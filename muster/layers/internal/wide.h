// Operations for which LibTorch has no bfloat16 kernel on the CPU, computed in float32. Thread
// safety: pure functions.
#pragma once

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::internal {

// Returns function(input); a bfloat16 input is widened for it, and its result rounded back.
template <typename Function>
Tensor in_float32(const Tensor& input, Function function) {
  if (input.scalar_type() != kBFloat16) return function(input);
  return function(input.to(kFloat32)).to(kBFloat16);
}

}  // namespace muster::inline v0_1::internal
