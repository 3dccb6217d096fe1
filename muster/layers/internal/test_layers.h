// Tests of layers share a store with a context, numbers, and the message of an error.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/error_of.h"
#include "muster/layers/internal/test_store.h"
#include "muster/layers/step_context.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::testing {

struct Fixture {
  TestStore store;
  StepContext context{store, 11};
};

// Makes numbers without a pattern, all different.
inline Tensor numbers(at::IntArrayRef shape, double phase = 0.3) {
  int64_t n = 1;
  for (int64_t size : shape) n *= size;
  std::vector<double> values(n);
  for (int64_t i = 0; i < n; ++i) values[i] = std::sin(phase + 12.9898 * (i + 1) + 0.001 * i * i);
  return torch::tensor(values, at::kDouble).reshape(shape);
}

}  // namespace muster::inline v0_1::testing
