#include "muster/losses/losses.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::losses {
namespace {

constexpr double kEpsilon = 1e-7;  // Keras's backend epsilon

void check_defined(const char* loss, const Tensor& labels, const Tensor& predictions) {
  if (labels.defined() && predictions.defined()) return;
  throw invalid_argument(
      fmt::format("{}: the {} are undefined", loss, labels.defined() ? "predictions" : "labels"),
      labels.defined() ? "" : "the input function must return labels in this mode");
}

Error shape_mismatch(const char* loss, const Tensor& labels, const Tensor& predictions,
                     std::string hint) {
  return invalid_argument(fmt::format("{}: labels {} do not fit predictions {}", loss,
                                      describe(labels), describe(predictions)),
                          std::move(hint));
}

// Gives the hint for labels and predictions that stand in each other's place.
std::string swapped(const char* loss) {
  return fmt::format("the labels come first: {}(labels, predictions)", loss);
}

// targets: int64[n], of `rows` rows.
void check_labels(const Tensor& targets, int64_t rows, int64_t classes) {
  const Tensor local = targets.cpu().contiguous();
  const int64_t* values = local.data_ptr<int64_t>();
  const int64_t each = rows > 0 ? local.numel() / rows : 0;  // labels a row
  for (int64_t i = 0; i < local.numel(); ++i) {
    if (values[i] >= 0 && values[i] < classes) continue;
    throw invalid_argument(
        fmt::format("sparse_categorical_crossentropy: the label of row {}{} is {}, outside [0, {})",
                    i / each, each > 1 ? fmt::format(", position {},", i % each) : "", values[i],
                    classes),
        fmt::format("the last axis of the predictions has {} classes", classes));
  }
}

// Gives log-probabilities along the axis of classes. Gradients stop where the clipping cuts.
Tensor log_of_probabilities(const Tensor& probabilities) {
  return probabilities.clamp(kEpsilon, 1 - kEpsilon).log();
}

}  // namespace

Tensor sparse_categorical_crossentropy(const Tensor& labels, const Tensor& predictions,
                                       const SparseCategoricalCrossentropyOptions& options) {
  constexpr const char* kName = "sparse_categorical_crossentropy";
  check_defined(kName, labels, predictions);
  if (!at::isIntegralType(labels.scalar_type(), /*includeBool=*/false)) {
    throw invalid_argument(fmt::format("{}: labels are {}", kName, describe(labels)),
                           at::isIntegralType(predictions.scalar_type(), false)
                               ? swapped(kName)
                               : "labels are class numbers of an integer dtype");
  }
  if (!predictions.is_floating_point() || predictions.dim() < 1) {
    throw invalid_argument(fmt::format("{}: predictions are {}", kName, describe(predictions)),
                           "predictions are floating point, [batch, classes]");
  }
  const auto batch = predictions.sizes().slice(0, predictions.dim() - 1);
  const bool squeezable = labels.dim() == predictions.dim() && labels.size(-1) == 1 &&
                          labels.sizes().slice(0, labels.dim() - 1) == batch;
  if (!squeezable && labels.sizes() != batch) {
    throw shape_mismatch(kName, labels, predictions,
                         "labels are [batch] or [batch, 1] for predictions [batch, classes]");
  }

  const int64_t classes = predictions.size(-1);
  const Tensor targets = labels.reshape({-1}).to(at::kLong);
  check_labels(targets, labels.dim() > 0 ? labels.size(0) : 1, classes);
  Tensor logits = predictions.dim() == 2 ? predictions : predictions.flatten(0, -2);
  if (predictions.dim() == 1) logits = predictions.unsqueeze(0);
  if (!options.from_logits) logits = log_of_probabilities(logits);

  // LibTorch computes and reduces the loss in one operation. Its mean over no rows would be NaN, so
  // that is a sum.
  const auto reduction = options.reduction == Reduction::kNone  ? at::Reduction::None
                         : options.reduction == Reduction::kSum ? at::Reduction::Sum
                         : targets.numel() == 0                 ? at::Reduction::Sum
                                                                : at::Reduction::Mean;
  Tensor loss = at::nll_loss(at::log_softmax(logits, -1), targets, {}, reduction);
  return options.reduction == Reduction::kNone ? loss.reshape(batch) : loss;
}

Tensor mean_squared_error(const Tensor& labels, const Tensor& predictions,
                          const MeanSquaredErrorOptions& options) {
  constexpr const char* kName = "mean_squared_error";
  check_defined(kName, labels, predictions);
  if (!predictions.is_floating_point()) {
    throw invalid_argument(
        fmt::format("{}: predictions are {}", kName, describe(predictions)),
        labels.is_floating_point() ? swapped(kName) : "predictions are floating point");
  }
  Tensor targets = labels.to(predictions.scalar_type());
  Tensor outputs = predictions;
  if (outputs.dim() <= 1) outputs = outputs.reshape({-1, 1});
  if (targets.dim() <= 1) targets = targets.reshape({-1, 1});
  if (targets.sizes() != outputs.sizes()) {
    throw shape_mismatch(kName, labels, predictions, "both need the same shape");
  }
  const Tensor squares = (outputs - targets).square();
  return reduce(squares.size(-1) == 1 ? squares.squeeze(-1) : squares.mean(-1), options.reduction);
}

}  // namespace muster::inline v0_1::losses
