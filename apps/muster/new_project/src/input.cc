#include "input.h"

#include <ATen/ops/empty.h>

#include <cmath>

using namespace muster;

namespace {

// Points on three arms of a spiral, with some noise: made here, so that nothing has to be
// downloaded. The same seed makes the same points.
Dataset spirals(int64_t examples, uint64_t seed) {
  Tensor points = at::empty({examples, 2}, kFloat32);
  Tensor labels = at::empty({examples}, kInt64);
  auto point = points.accessor<float, 2>();
  auto label = labels.accessor<int64_t, 1>();
  Random random(derive_key(seed, {id_of("spirals")}));
  for (int64_t i = 0; i < examples; ++i) {
    const double radius = random.uniform();
    const double angle =
        2.1 * static_cast<double>(i % kClasses) + 4 * radius + 0.15 * random.normal();
    point[i][0] = static_cast<float>(radius * std::cos(angle));
    point[i][1] = static_cast<float>(radius * std::sin(angle));
    label[i] = i % kClasses;
  }
  // One element per row. The rows can be read in any order, so Muster divides them between workers,
  // and a stopped run continues at the next row.
  return Dataset::from_tensor_slices(Element::tuple({Element::dict({{"point", points}}), labels}));
}

}  // namespace

Dataset training_data() { return spirals(6000, 1); }
Dataset test_data() { return spirals(1000, 2); }
