#include "muster/loop/testing/test_loops.h"

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {

ScopeOptions alone(uint64_t seed) { return {.seed = seed, .environment = Environment()}; }

Dataset points(int64_t rows) {
  const Tensor x = torch::arange(2 * rows).to(kFloat32).view({rows, 2}).sin();
  const Tensor y = (3 * x.select(1, 0) - 2 * x.select(1, 1) + 1).unsqueeze(1);
  return Dataset::from_tensor_slices(Element::tuple({x, y}));
}

}  // namespace muster::inline v0_1::distribute
