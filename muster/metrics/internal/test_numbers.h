// Random numbers and tensors of them, for the tests of metrics. Thread safety: pure functions.
#pragma once

#include <cmath>
#include <vector>

#include "muster/base/random.h"
#include "muster/metrics/metric.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::metrics::testing {

using Row = std::vector<double>;

inline Tensor tensor_of(const Row& numbers, const Shape& shape, DType dtype = kFloat32) {
  return torch::tensor(numbers, kFloat64).reshape(shape).to(dtype);
}

// Returns `count` numbers in [0, 1) that are multiples of 1 / `grid`: exact in float32 where the
// grid is a power of two.
inline Row numbers(uint64_t seed, int64_t count, int64_t grid = 1 << 20) {
  Random random(derive_key(seed, {id_of("metrics")}));
  Row all;
  for (int64_t i = 0; i < count; ++i)
    all.push_back(std::floor(random.uniform() * static_cast<double>(grid)) /
                  static_cast<double>(grid));
  return all;
}

// Returns `count` whole numbers from `least` to `least` + `kinds` - 1.
inline Row whole_numbers(uint64_t seed, int64_t count, int64_t kinds, double least = 0) {
  Row all = numbers(seed, count);
  for (double& number : all) number = least + std::floor(number * static_cast<double>(kinds));
  return all;
}

// The caution that belongs to the result.
inline std::string caution_of(const Metric& metric) {
  return metric.definition()->caution(metric.state());
}

}  // namespace muster::inline v0_1::metrics::testing
