#include "muster/metrics/internal/weighted_mean.h"

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::metrics::internal {

Metric weighted_mean(const char* metric, const Shape& form, std::function<Tensor()> values,
                     const Tensor& weights, const char* name, const Tensor& fitted) {
  return Metric::deferred(metric, [metric, values = std::move(values),
                                   fit = fit_weights(metric, weights, form, name, fitted)] {
    check_weights(metric, fit);
    return weighted_sums(values(), fit);
  });
}

Metric mean_over_examples(const char* metric, const Tensor& labels, const Tensor& predictions,
                          const Tensor& weights, std::function<Tensor(const Labeled&)> each) {
  Labeled given = with_outputs(metric, labels, predictions);
  const auto sizes = given.predictions.sizes();
  const Shape batch = sizes.slice(0, sizes.size() - 1).vec();
  return weighted_mean(
      metric, batch, [given = std::move(given), each = std::move(each)] { return each(given); },
      weights, "predictions", predictions);
}

std::vector<double> weighted_sums(const Tensor& values, const Tensor& weights) {
  Tensor all = values.to(at::kDouble);
  if (!weights.defined()) return {all.sum().item<double>(), static_cast<double>(all.numel())};
  const Tensor each = weights.to(at::kDouble);
  if (each.dim() < all.dim()) all = all.flatten(each.dim()).mean(-1);
  return {(all * each).sum().item<double>(), each.sum().item<double>()};
}

}  // namespace muster::inline v0_1::metrics::internal
