// Tests of loops share a scope that knows no cluster, and points on a plane.
#pragma once

#include "muster/data/dataset.h"
#include "muster/loop/scope.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {

inline ScopeOptions alone(uint64_t seed = 0) {
  return {.seed = seed, .environment = Environment()};
}

// Gives x float32[2], y = 3 x0 - 2 x1 + 1.
inline Dataset points(int64_t rows) {
  const Tensor x = torch::arange(2 * rows).to(kFloat32).view({rows, 2}).sin();
  const Tensor y = (3 * x.select(1, 0) - 2 * x.select(1, 1) + 1).unsqueeze(1);
  return Dataset::from_tensor_slices(Element::tuple({x, y}));
}

}  // namespace muster::inline v0_1::distribute
