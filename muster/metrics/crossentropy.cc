#include "muster/metrics/crossentropy.h"

#include "muster/metrics/internal/arguments.h"
#include "muster/metrics/internal/weighted_mean.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::metrics {
namespace {

using internal::Labeled;

constexpr double kClip = 1e-7;  // Keras's backend epsilon

Tensor as_dtype(const Tensor& tensor, DType dtype = at::kDouble) { return tensor.to(dtype); }

// -label log(p) - (1 - label) log(1 - p), computed as max(x, 0) - x label + log(1 + exp(-|x|)).
Tensor sigmoid_crossentropy(const Tensor& labels, const Tensor& logits) {
  return logits.clamp_min(0) - logits * labels + logits.abs().neg().exp().log1p();
}

// Computed in the dtype of the predictions, for 1 - 1e-7 is another number in float32.
Tensor crossentropy_of_probabilities(const Tensor& labels, const Tensor& predictions) {
  const Tensor p = predictions.clamp(kClip, 1 - kClip);
  return -(labels * (p + kClip).log() + (1 - labels) * (1 - p + kClip).log());
}

// Returns the weights of examples, 0 for the ignored label.
Tensor weights_without(const Tensor& labels, int64_t ignored, const Tensor& weights) {
  const Tensor counted = labels.ne(ignored).to(at::kDouble);
  if (!weights.defined()) return counted;
  return counted * internal::weights_of_each(weights, labels.sizes().vec());
}

}  // namespace

Metric binary_crossentropy(const Tensor& labels, const Tensor& predictions, const Tensor& weights,
                           const CrossentropyOptions& options) {
  constexpr const char* kName = "binary_crossentropy";
  internal::check_fraction(kName, "label_smoothing", options.label_smoothing);
  return internal::mean_over_examples(
      kName, labels, predictions, weights, [options](const Labeled& given) {
        internal::check_unit_range(kName, "labels", given.labels);
        const DType dtype =
            options.from_logits ? at::kDouble : internal::compute_dtype(given.predictions);
        const double kept = 1 - options.label_smoothing;
        const Tensor smoothed =
            as_dtype(given.labels, dtype) * kept + 0.5 * options.label_smoothing;
        const Tensor outputs = as_dtype(given.predictions, dtype);
        const Tensor losses = options.from_logits
                                  ? sigmoid_crossentropy(smoothed, outputs)
                                  : crossentropy_of_probabilities(smoothed, outputs);
        return as_dtype(losses).mean(-1);
      });
}

Metric categorical_crossentropy(const Tensor& labels, const Tensor& predictions,
                                const Tensor& weights, const CrossentropyOptions& options) {
  constexpr const char* kName = "categorical_crossentropy";
  internal::check_fraction(kName, "label_smoothing", options.label_smoothing);
  return internal::mean_over_examples(
      kName, labels, predictions, weights, [options](const Labeled& given) {
        Tensor logs = as_dtype(given.predictions);
        if (options.from_logits) {
          logs = logs.log_softmax(-1);
        } else {
          logs = (logs / logs.sum(-1, /*keepdim=*/true)).clamp(kClip, 1 - kClip).log();
        }
        const double kept = 1 - options.label_smoothing;
        const double spread = options.label_smoothing / static_cast<double>(logs.size(-1));
        return -((as_dtype(given.labels) * kept + spread) * logs).sum(-1);
      });
}

Metric sparse_categorical_crossentropy(const Tensor& labels, const Tensor& predictions,
                                       const Tensor& weights,
                                       const SparseCategoricalCrossentropyOptions& options) {
  constexpr const char* kName = "sparse_categorical_crossentropy";
  const Labeled given = internal::with_classes(kName, labels, predictions);
  const Tensor fit =
      internal::fit_weights(kName, weights, given.labels.sizes().vec(), "predictions", predictions);
  return Metric::deferred(kName, [given, fit, options] {
    internal::check_weights(kName, fit);
    const int64_t classes = given.predictions.size(-1);
    const int64_t* ignored = options.ignore_class ? &*options.ignore_class : nullptr;
    const Tensor numbers = internal::class_numbers(kName, "labels", given.labels, classes, ignored)
                               .reshape(given.labels.sizes())
                               .to(given.predictions.device());
    Tensor logs = as_dtype(given.predictions);
    if (!options.from_logits) logs = logs.clamp(kClip, 1 - kClip).log();
    logs = logs.log_softmax(-1);
    const Tensor targets = numbers.clamp(0, classes - 1);
    const Tensor losses = -logs.gather(-1, targets.unsqueeze(-1)).squeeze(-1);
    return internal::weighted_sums(
        losses, ignored != nullptr ? weights_without(numbers, *ignored, fit) : fit);
  });
}

Metric kl_divergence(const Tensor& labels, const Tensor& predictions, const Tensor& weights) {
  constexpr const char* kName = "kl_divergence";
  return internal::mean_over_examples(
      kName, labels, predictions, weights, [](const Labeled& given) {
        const Tensor label = as_dtype(given.labels).clamp(kClip, 1);
        const Tensor prediction = as_dtype(given.predictions).clamp(kClip, 1);
        return (label * (label / prediction).log()).sum(-1);
      });
}

Metric poisson(const Tensor& labels, const Tensor& predictions, const Tensor& weights) {
  constexpr const char* kName = "poisson";
  return internal::mean_over_examples(
      kName, labels, predictions, weights, [](const Labeled& given) {
        const Tensor prediction = as_dtype(given.predictions);
        return (prediction - as_dtype(given.labels) * (prediction + kClip).log()).mean(-1);
      });
}

}  // namespace muster::inline v0_1::metrics
