// Variables and pieces for tests of code that trains them.
#pragma once

#include <string>
#include <utility>

#include "muster/distribute/variable_table.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::testing {

inline VariableSpec spec_of(const std::string& name, Shape shape, DType dtype = kFloat32) {
  return {.name = name,
          .shape = std::move(shape),
          .dtype = dtype,
          .initializer = [](const Shape& shape, DType dtype, RandomKey key) {
            Random random(key);
            Tensor value = torch::empty(shape, at::kDouble);
            double* numbers = value.data_ptr<double>();
            for (int64_t i = 0; i < value.numel(); ++i) numbers[i] = random.normal();
            return value.to(dtype);
          }};
}

inline Tensor heap(int64_t bytes) { return torch::zeros({bytes}, at::kByte); }

inline auto only(const std::string& part) {
  return [part](const VariableSpec& spec) { return spec.name.find(part) != std::string::npos; };
}

// A loss without a graph, as the build pass gives it.
inline Tensor no_loss() { return torch::zeros({}); }

}  // namespace muster::inline v0_1::testing
