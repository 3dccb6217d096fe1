// Batches for the tests of heads. Thread safety: pure functions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "muster/heads/head.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::testing {

inline Tensor numbers(const std::vector<double>& values, const Shape& shape,
                      DType dtype = kFloat32) {
  return torch::tensor(values, at::kDouble).reshape(shape).to(dtype);
}

// Features "x", and "w" if there are weights.
inline Features features_with(const Tensor& weights, int64_t rows = 1) {
  if (!weights.defined()) return Features(Element::dict({{"x", torch::zeros({rows, 1})}}));
  return Features(Element::dict({{"w", weights}, {"x", torch::zeros({weights.size(0), 1})}}));
}

inline Labels labels_of(const Tensor& labels) { return Labels(Element(labels)); }

// The results of metrics by name.
inline std::map<std::string, double> results_of(const std::map<std::string, Metric>& metrics) {
  std::map<std::string, double> results;
  for (const auto& [name, metric] : metrics) results[name] = metric.result();
  return results;
}

}  // namespace muster::inline v0_1::testing
