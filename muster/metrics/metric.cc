#include "muster/metrics/metric.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include "muster/base/error.h"

namespace muster {
namespace {

constexpr const char* kMean = "mean";
constexpr const char* kAccuracy = "accuracy";
constexpr size_t kStateSize = 2;  // total, weight

}  // namespace

Metric::Metric(std::string kind, std::vector<double> state)
    : kind_(std::move(kind)), state_(std::move(state)) {}

Metric Metric::make(const std::string& kind, std::vector<double> state) {
  if (kind != kMean && kind != kAccuracy) {
    throw invalid_argument(fmt::format("there is no metric of kind \"{}\"", kind),
                           fmt::format("the kinds are {}, {}", kAccuracy, kMean));
  }
  if (state.size() != kStateSize) {
    throw invalid_argument(fmt::format("the state of a {} metric has {} numbers, not {}", kind,
                                       kStateSize, state.size()));
  }
  return Metric(kind, std::move(state));
}

void Metric::merge(const Metric& other) {
  if (kind_ != other.kind_) {
    throw invalid_argument(
        fmt::format("cannot merge a metric of kind {} into one of kind {}", other.kind_, kind_),
        "every replica must return the same metrics under the same names");
  }
  for (size_t i = 0; i < state_.size(); ++i) state_[i] += other.state_[i];
}

double Metric::result() const { return state_[1] == 0 ? 0.0 : state_[0] / state_[1]; }

namespace metrics {
namespace {

void check_defined(const char* metric, const char* what, const Tensor& tensor) {
  if (tensor.defined()) return;
  throw invalid_argument(fmt::format("metrics::{}: the {} are undefined", metric, what));
}

Tensor squeeze_last(const Tensor& tensor) { return tensor.squeeze(-1); }

Metric weighted(const char* kind, Tensor values, Tensor weights) {
  values = values.detach().to(at::kDouble);
  if (!weights.defined()) {
    return Metric::make(kind, {values.sum().item<double>(), static_cast<double>(values.numel())});
  }
  const Tensor given = weights;
  weights = weights.detach().to(at::kDouble);
  if (weights.dim() == values.dim() + 1 && weights.size(-1) == 1) weights = squeeze_last(weights);
  if (weights.dim() > 0 && weights.dim() <= values.dim() &&
      weights.sizes() != values.sizes().slice(0, weights.dim()) && weights.size(-1) == 1) {
    weights = squeeze_last(weights);
  }
  if (weights.dim() == 0) weights = weights.expand(values.sizes());
  if (weights.dim() > values.dim() || weights.sizes() != values.sizes().slice(0, weights.dim())) {
    throw invalid_argument(fmt::format("metrics::{}: weights {} do not fit values {}", kind,
                                       describe(given), describe(values)),
                           "give one weight, or one for each example");
  }
  if (weights.dim() < values.dim()) values = values.flatten(weights.dim()).mean(-1);
  return Metric::make(kind,
                      {(values * weights).sum().item<double>(), weights.sum().item<double>()});
}

}  // namespace

Metric mean(const Tensor& values, const Tensor& weights) {
  check_defined(kMean, "values", values);
  return weighted(kMean, values, weights);
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
                           "predictions are class numbers: logits.argmax(-1)");
  }
  return weighted(kAccuracy, expected.eq(given), weights);
}

}  // namespace metrics
}  // namespace muster
