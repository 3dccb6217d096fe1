#include "muster/metrics/hinge.h"

#include "muster/metrics/internal/arguments.h"
#include "muster/metrics/internal/weighted_mean.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::metrics {
namespace {

using internal::Labeled;

// Returns -1 and 1, in float64 on the device of the labels. Each label is taken by itself, so that
// its sign does not depend on its batch.
Tensor signs(const char* metric, const Tensor& labels) {
  const Tensor given = labels.to(at::kCPU, at::kDouble).contiguous();
  const Tensor sign = at::empty_like(given);
  const double* from = given.data_ptr<double>();
  double* to = sign.data_ptr<double>();
  for (int64_t i = 0; i < given.numel(); ++i) {
    if (from[i] != -1 && from[i] != 0 && from[i] != 1)
      internal::refuse_element(metric, "labels", labels, i, from[i], "-1 or 1, or 0 or 1");
    to[i] = from[i] == 0 ? -1 : from[i];
  }
  return sign.to(labels.device());
}

// max(1 - label prediction, 0) of each element.
Tensor shortfalls(const char* metric, const Labeled& given) {
  const Tensor agreement = signs(metric, given.labels) * given.predictions.to(at::kDouble);
  return (1 - agreement).clamp_min(0);
}

}  // namespace

Metric hinge(const Tensor& labels, const Tensor& predictions, const Tensor& weights) {
  constexpr const char* kName = "hinge";
  return internal::mean_over_examples(
      kName, labels, predictions, weights,
      [](const Labeled& given) { return shortfalls(kName, given).mean(-1); });
}

Metric squared_hinge(const Tensor& labels, const Tensor& predictions, const Tensor& weights) {
  constexpr const char* kName = "squared_hinge";
  return internal::mean_over_examples(
      kName, labels, predictions, weights,
      [](const Labeled& given) { return shortfalls(kName, given).square().mean(-1); });
}

Metric categorical_hinge(const Tensor& labels, const Tensor& predictions, const Tensor& weights) {
  return internal::mean_over_examples("categorical_hinge", labels, predictions, weights,
                                      [](const Labeled& given) {
                                        const Tensor label = given.labels.to(at::kDouble);
                                        const Tensor prediction = given.predictions.to(at::kDouble);
                                        const Tensor own = (label * prediction).sum(-1);
                                        const Tensor other = ((1 - label) * prediction).amax(-1);
                                        return (other - own + 1).clamp_min(0);
                                      });
}

}  // namespace muster::inline v0_1::metrics
