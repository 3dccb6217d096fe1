#include "muster/losses/cross_entropy.h"

#include <fmt/format.h>

#include "muster/losses/internal/cross_entropy_terms.h"
#include "muster/losses/internal/inputs.h"
#include "muster/tensor/host_copy.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::losses {
namespace {

using internal::kEpsilon;

constexpr const char* kSparse = "sparse_categorical_crossentropy";
constexpr const char* kForOneHot = "one-hot labels are for categorical_crossentropy";

// labels: integers, of `rows` rows.
void check_labels(const Tensor& labels, int64_t rows, int64_t classes,
                  const std::optional<int64_t>& ignored) {
  const Tensor local = on_host(labels).to(at::kLong).contiguous();
  const int64_t* values = local.data_ptr<int64_t>();
  for (int64_t i = 0; i < local.numel(); ++i) {
    if ((values[i] >= 0 && values[i] < classes) || values[i] == ignored) continue;
    throw invalid_argument(
        fmt::format("{}: the label of {} is {}, outside [0, {})", kSparse,
                    internal::place_of(i, local.numel(), rows), values[i], classes),
        fmt::format("the last axis of the predictions has {} classes", classes));
  }
}

void check_class_numbers(const Tensor& labels, const Tensor& predictions) {
  internal::check_defined(kSparse, labels, predictions);
  if (!at::isIntegralType(labels.scalar_type(), /*includeBool=*/false)) {
    throw invalid_argument(
        fmt::format("{}: labels are {}", kSparse, describe(labels)),
        at::isIntegralType(predictions.scalar_type(), false)
            ? internal::swapped(kSparse)
            : std::string("labels are class numbers of an integer dtype") +
                  (labels.sizes() == predictions.sizes() ? std::string("; ") + kForOneHot : ""));
  }
  if (predictions.is_floating_point() && predictions.dim() >= 1) return;
  throw invalid_argument(fmt::format("{}: predictions are {}", kSparse, describe(predictions)),
                         "predictions are floating point, [batch, classes]");
}

// The mean over the labels that count; the weights of the others are 0.
Tensor mean_of_counted(const Tensor& losses, const Tensor& targets, int64_t ignored,
                       const Tensor& sample_weight) {
  const Tensor sum = internal::weighted(kSparse, losses, sample_weight, Reduction::kSum);
  return sum / targets.ne(ignored).sum().clamp_min(1).to(sum.scalar_type());
}

// targets: int64[n]; scores: [n, classes], logits or logarithms of probabilities.
Tensor reduced(const Tensor& targets, const Tensor& scores, at::IntArrayRef batch,
               const SparseCategoricalCrossentropyOptions& options) {
  const Tensor logs = at::log_softmax(scores, -1);
  if (options.sample_weight.defined() || options.ignore_class) {
    const int64_t ignored = options.ignore_class.value_or(-1);  // no label is -1 without it
    const Tensor losses =
        at::nll_loss(logs, targets, {}, at::Reduction::None, ignored).reshape(batch);
    return options.ignore_class && options.reduction == Reduction::kMean
               ? mean_of_counted(losses, targets, ignored, options.sample_weight)
               : internal::weighted(kSparse, losses, options.sample_weight, options.reduction);
  }
  // LibTorch computes and reduces the loss in one operation. Its mean over no rows would be NaN, so
  // that is a sum.
  const auto reduction = options.reduction == Reduction::kNone  ? at::Reduction::None
                         : options.reduction == Reduction::kSum ? at::Reduction::Sum
                         : targets.numel() == 0                 ? at::Reduction::Sum
                                                                : at::Reduction::Mean;
  const Tensor loss = at::nll_loss(logs, targets, {}, reduction);
  return options.reduction == Reduction::kNone ? loss.reshape(batch) : loss;
}

}  // namespace

Tensor binary_crossentropy(const Tensor& labels, const Tensor& predictions,
                           const BinaryCrossentropyOptions& options) {
  constexpr const char* kName = "binary_crossentropy";
  const auto inputs = internal::binary_inputs(kName, labels, predictions, options.label_smoothing);
  const int64_t axis = internal::check_axis(kName, options.axis, inputs.predictions);
  if (!options.from_logits) internal::check_predictions(kName, inputs.predictions, /*most=*/1);
  const Tensor terms =
      internal::binary_terms(inputs.labels, inputs.predictions, options.from_logits);
  return internal::weighted(kName, internal::mean_over(terms, axis), options.sample_weight,
                            options.reduction);
}

Tensor categorical_crossentropy(const Tensor& labels, const Tensor& predictions,
                                const CategoricalCrossentropyOptions& options) {
  constexpr const char* kName = "categorical_crossentropy";
  const auto inputs = internal::categorical_inputs(kName, labels, predictions,
                                                   options.label_smoothing, options.axis);
  if (!options.from_logits)
    internal::check_predictions(kName, inputs.predictions, internal::kAnyScale);
  const Tensor logs = options.from_logits
                          ? at::log_softmax(inputs.predictions, -1)
                          : internal::clipped(internal::scaled_to_one(inputs.predictions)).log();
  return internal::weighted(kName, -(inputs.labels * logs).sum(-1), options.sample_weight,
                            options.reduction);
}

Tensor sparse_categorical_crossentropy(const Tensor& labels, const Tensor& predictions,
                                       const SparseCategoricalCrossentropyOptions& options) {
  check_class_numbers(labels, predictions);
  Tensor scores = internal::wide(predictions);
  if (options.axis != -1)
    scores = scores.movedim(internal::check_axis(kSparse, options.axis, predictions), -1);
  const auto batch = scores.sizes().slice(0, scores.dim() - 1).vec();
  const bool squeezable = labels.dim() == scores.dim() && labels.size(-1) == 1 &&
                          labels.sizes().slice(0, labels.dim() - 1) == at::IntArrayRef(batch);
  if (!squeezable && labels.sizes() != at::IntArrayRef(batch)) {
    throw internal::shape_mismatch(
        kSparse, labels, predictions,
        std::string("labels are [batch] or [batch, 1] for predictions [batch, classes]; ") +
            kForOneHot);
  }

  const int64_t classes = scores.size(-1);
  const Tensor targets = labels.reshape({-1}).to(at::kLong);
  check_labels(labels.is_cpu() ? targets : labels, labels.dim() > 0 ? labels.size(0) : 1, classes,
               options.ignore_class);
  if (!options.from_logits) internal::check_predictions(kSparse, scores, /*most=*/1);
  if (scores.dim() != 2) scores = scores.dim() == 1 ? scores.unsqueeze(0) : scores.flatten(0, -2);
  // Gradients stop where the clipping cuts.
  if (!options.from_logits) scores = internal::clipped(scores).log();
  return reduced(targets, scores, batch, options);
}

}  // namespace muster::inline v0_1::losses
