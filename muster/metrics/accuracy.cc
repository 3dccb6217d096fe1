#include "muster/metrics/accuracy.h"

#include <fmt/format.h>

#include <cmath>

#include "muster/base/error.h"
#include "muster/metrics/internal/arguments.h"
#include "muster/metrics/internal/weighted_mean.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::metrics {
namespace {

using internal::Labeled;

Shape batch_of(const Tensor& outputs) { return outputs.sizes().slice(0, outputs.dim() - 1).vec(); }

// Returns int64[batch...], on the device of the predictions.
Tensor targets_of(const char* metric, const Labeled& given) {
  const Tensor numbers =
      internal::class_numbers(metric, "labels", given.labels, given.predictions.size(-1));
  return numbers.reshape(given.labels.sizes()).to(given.predictions.device());
}

// Returns for each example whether fewer than k predictions are larger than the prediction of its
// target.
Tensor in_top_k(const Tensor& targets, const Tensor& predictions, int64_t k) {
  const Tensor all = predictions.to(internal::compute_dtype(predictions));
  const Tensor own = all.gather(-1, targets.unsqueeze(-1));
  return all.gt(own).sum(-1).lt(k).logical_and(all.isfinite().all(-1));
}

}  // namespace

Metric accuracy(const Tensor& labels, const Tensor& predictions, const Tensor& weights) {
  constexpr const char* kName = "accuracy";
  const bool swapped = labels.defined() && predictions.defined() && labels.is_floating_point() &&
                       !predictions.is_floating_point();
  const Labeled given =
      internal::in_one_shape(kName, labels, predictions,
                             swapped ? "the labels come first: accuracy(labels, logits.argmax(-1))"
                                     : "predictions are class numbers: logits.argmax(-1)");
  return internal::weighted_mean(
      kName, given.labels.sizes().vec(), [given] { return given.labels.eq(given.predictions); },
      weights, "predictions", predictions);
}

Metric accuracy_baseline(const Tensor& labels, const Tensor& weights) {
  constexpr const char* kName = "accuracy_baseline";
  internal::check_defined(kName, "labels", labels);
  return internal::weighted_mean(
      kName, labels.sizes().vec(),
      [labels = labels.detach()] {
        internal::check_unit_range(kName, "labels", labels);
        return labels;
      },
      weights, "labels", labels);
}

Metric binary_accuracy(const Tensor& labels, const Tensor& predictions, const Tensor& weights,
                       const BinaryAccuracyOptions& options) {
  constexpr const char* kName = "binary_accuracy";
  if (std::isnan(options.threshold)) {
    throw invalid_argument(
        fmt::format("metrics::{}: threshold is nan; it must be a number", kName));
  }
  const auto right = [threshold = options.threshold](const Labeled& given) {
    internal::check_unit_range(kName, "labels", given.labels);
    const DType dtype = internal::compute_dtype(given.predictions);
    const Tensor said = given.predictions.to(dtype).gt(threshold);
    return given.labels.to(dtype).eq(said).to(at::kDouble).mean(-1);
  };
  return internal::mean_over_examples(kName, labels, predictions, weights, right);
}

Metric categorical_accuracy(const Tensor& labels, const Tensor& predictions,
                            const Tensor& weights) {
  return internal::mean_over_examples(
      "categorical_accuracy", labels, predictions, weights, [](const Labeled& given) {
        return given.labels.argmax(-1).eq(given.predictions.argmax(-1));
      });
}

Metric sparse_categorical_accuracy(const Tensor& labels, const Tensor& predictions,
                                   const Tensor& weights) {
  constexpr const char* kName = "sparse_categorical_accuracy";
  const Labeled given = internal::with_classes(kName, labels, predictions);
  return internal::weighted_mean(
      kName, batch_of(given.predictions),
      [given] { return targets_of(kName, given).eq(given.predictions.argmax(-1)); }, weights,
      "predictions", predictions);
}

Metric top_k_categorical_accuracy(const Tensor& labels, const Tensor& predictions,
                                  const Tensor& weights, const TopKOptions& options) {
  constexpr const char* kName = "top_k_categorical_accuracy";
  internal::check_at_least(kName, "k", options.k, 1);
  return internal::mean_over_examples(
      kName, labels, predictions, weights, [k = options.k](const Labeled& given) {
        return in_top_k(given.labels.argmax(-1), given.predictions, k);
      });
}

Metric sparse_top_k_categorical_accuracy(const Tensor& labels, const Tensor& predictions,
                                         const Tensor& weights, const TopKOptions& options) {
  constexpr const char* kName = "sparse_top_k_categorical_accuracy";
  internal::check_at_least(kName, "k", options.k, 1);
  const Labeled given = internal::with_classes(kName, labels, predictions);
  return internal::weighted_mean(
      kName, batch_of(given.predictions),
      [given, k = options.k] { return in_top_k(targets_of(kName, given), given.predictions, k); },
      weights, "predictions", predictions);
}

}  // namespace muster::inline v0_1::metrics
