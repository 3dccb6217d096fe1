// Ten batches of data for tests of steps that are not finite, some of them flawed, and a model with
// statistics of its batches.
#pragma once

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "muster/estimator/testing/test_model.h"
#include "muster/layers/batch_normalization.h"

namespace muster::inline v0_1::testing {

inline constexpr double kSteep =
    100;  // a feature for which gradients of batch_normalized() are not numbers

// Batches of 12 rows over all replicas, the numbers 0 to 9 except `without`. One number in the
// second half of each of `flawed` is `value`.
inline InputFn flawed_batches(const std::set<int64_t>& without, const std::set<int64_t>& flawed,
                              double value = std::nan("")) {
  const int64_t rows = 12;
  Tensor x = (torch::arange(10 * rows * kFeatures).to(kFloat32) * 7.3).sin();
  x = x.view({10, rows, kFeatures}).contiguous();
  const Tensor label = x.sum(-1).gt(0).to(kInt64);
  for (const int64_t batch : flawed) x[batch][8][3] = value;
  std::vector<int64_t> kept;
  for (int64_t batch = 0; batch < 10; ++batch) {
    if (!without.contains(batch)) kept.push_back(batch);
  }
  const Tensor index = torch::tensor(kept);
  const Tensor features = x.index_select(0, index).view({-1, kFeatures});
  const Tensor labels = label.index_select(0, index).view({-1});
  return [=] {
    return Dataset::from_tensor_slices(Element::tuple({Element::dict({{"x", features}}), labels}))
        .global_batch(rows);
  };
}

inline EstimatorSpec batch_normalized(const Features& features, const Labels& labels, Mode mode,
                                      ModelContext& context) {
  auto model = context.model("net", [] {
    return Sequential({Dense(16), BatchNormalization(), Dense(2)});
  });
  const Tensor logits = model(features["x"]);
  if (mode == Mode::kPredict) return EstimatorSpec::predict(logits);
  Tensor loss = loss_of(logits, labels);
  if (mode == Mode::kEval) return EstimatorSpec::eval(loss);
  // The root of 0 is 0, and its derivative is infinite.
  if (features["x"].numel() > 0 && features["x"].max().item<double>() == kSteep)
    loss = loss + (logits * 0).sum().sqrt();
  return EstimatorSpec::train(loss, context.optimizer(make_optimizer("adam")).minimize(loss));
}

}  // namespace muster::inline v0_1::testing
