#include "muster/metrics/metrics.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::metrics {
namespace {

constexpr const char* kMean = "mean";
constexpr const char* kAccuracy = "accuracy";

void check_defined(const char* metric, const char* what, const Tensor& tensor) {
  if (tensor.defined()) return;
  throw invalid_argument(fmt::format("metrics::{}: the {} are undefined", metric, what));
}

Tensor squeeze_last(const Tensor& tensor) { return tensor.squeeze(-1); }

// Calls `values` when they are needed; they have the shape of `form`.
Metric weighted(const char* kind, const Tensor& form, std::function<Tensor()> values,
                Tensor weights) {
  if (!weights.defined()) {
    return Metric::deferred(kind, [values = std::move(values)] {
      const Tensor all = values().to(at::kDouble);
      return std::vector<double>{all.sum().item<double>(), static_cast<double>(all.numel())};
    });
  }
  const Tensor given = weights;
  weights = weights.detach();
  if (weights.dim() == form.dim() + 1 && weights.size(-1) == 1) weights = squeeze_last(weights);
  if (weights.dim() > 0 && weights.dim() <= form.dim() &&
      weights.sizes() != form.sizes().slice(0, weights.dim()) && weights.size(-1) == 1) {
    weights = squeeze_last(weights);
  }
  if (weights.dim() == 0) weights = weights.expand(form.sizes());
  if (weights.dim() > form.dim() || weights.sizes() != form.sizes().slice(0, weights.dim())) {
    throw invalid_argument(fmt::format("metrics::{}: weights {} do not fit values {}", kind,
                                       describe(given), describe(form)),
                           "give one weight, or one for each example");
  }
  return Metric::deferred(kind, [values = std::move(values), weights] {
    Tensor all = values().to(at::kDouble);
    const Tensor each = weights.to(at::kDouble);
    if (each.dim() < all.dim()) all = all.flatten(each.dim()).mean(-1);
    return std::vector<double>{(all * each).sum().item<double>(), each.sum().item<double>()};
  });
}

}  // namespace

Metric mean(const Tensor& values, const Tensor& weights) {
  check_defined(kMean, "values", values);
  return weighted(
      kMean, values, [values = values.detach()] { return values; }, weights);
}

Metric accuracy(const Tensor& labels, const Tensor& predictions, const Tensor& weights) {
  check_defined(kAccuracy, "labels", labels);
  check_defined(kAccuracy, "predictions", predictions);
  Tensor expected = labels;
  Tensor given = predictions;
  if (expected.dim() == given.dim() + 1 && expected.size(-1) == 1)
    expected = squeeze_last(expected);
  if (given.dim() == expected.dim() + 1 && given.size(-1) == 1) given = squeeze_last(given);
  if (expected.sizes() != given.sizes()) {
    throw invalid_argument(fmt::format("metrics::accuracy: labels {} do not fit predictions {}",
                                       describe(labels), describe(predictions)),
                           labels.is_floating_point() && !predictions.is_floating_point()
                               ? "the labels come first: accuracy(labels, logits.argmax(-1))"
                               : "predictions are class numbers: logits.argmax(-1)");
  }
  return weighted(
      kAccuracy, expected,
      [expected = expected.detach(), given = given.detach()] { return expected.eq(given); },
      weights);
}

}  // namespace muster::inline v0_1::metrics
