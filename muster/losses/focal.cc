#include "muster/losses/focal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "muster/losses/internal/cross_entropy_terms.h"
#include "muster/losses/internal/inputs.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::losses {
namespace {

void check_gamma(const char* loss, double gamma) {
  internal::check_option(loss, "gamma", gamma, gamma >= 0 && std::isfinite(gamma),
                         "finite and 0 or more");
}

// How wrong each output is, to the power gamma. Rounding may leave less than 0, of which a power
// would be no number.
Tensor focus(const Tensor& right, double gamma) { return (1 - right).clamp_min(0).pow(gamma); }

// Returns the weights of classes as a scalar or [classes].
Tensor alpha_of(const char* loss, const std::vector<double>& alpha, const Tensor& predictions) {
  const int64_t classes = predictions.size(-1);
  const auto count = static_cast<int64_t>(alpha.size());
  if (count != 1 && count != classes) {
    throw invalid_argument(
        fmt::format("{}: alpha has {} weights, for {} classes", loss, count, classes),
        "give one weight for all classes, or one for each");
  }
  for (const double weight : alpha)
    internal::check_option(loss, "alpha", weight, weight >= 0 && std::isfinite(weight),
                           "finite and 0 or more");
  return torch::tensor(alpha, at::kDouble).to(predictions.device(), predictions.scalar_type());
}

}  // namespace

Tensor binary_focal_crossentropy(const Tensor& labels, const Tensor& predictions,
                                 const BinaryFocalCrossentropyOptions& options) {
  constexpr const char* kName = "binary_focal_crossentropy";
  check_gamma(kName, options.gamma);
  internal::check_option(kName, "alpha", options.alpha, options.alpha >= 0 && options.alpha <= 1,
                         "in [0, 1]");
  const auto inputs = internal::binary_inputs(kName, labels, predictions, options.label_smoothing);
  const int64_t axis = internal::check_axis(kName, options.axis, inputs.predictions);
  if (!options.from_logits) internal::check_predictions(kName, inputs.predictions, /*most=*/1);
  const Tensor& y = inputs.labels;
  const Tensor p = options.from_logits ? inputs.predictions.sigmoid() : inputs.predictions;
  const Tensor right = y * p + (1 - y) * (1 - p);
  Tensor terms = focus(right, options.gamma) *
                 internal::binary_terms(y, inputs.predictions, options.from_logits);
  if (options.apply_class_balancing)
    terms = terms * (y * options.alpha + (1 - y) * (1 - options.alpha));
  return internal::weighted(kName, internal::mean_over(terms, axis), options.sample_weight,
                            options.reduction);
}

Tensor categorical_focal_crossentropy(const Tensor& labels, const Tensor& predictions,
                                      const CategoricalFocalCrossentropyOptions& options) {
  constexpr const char* kName = "categorical_focal_crossentropy";
  check_gamma(kName, options.gamma);
  const auto inputs = internal::categorical_inputs(kName, labels, predictions,
                                                   options.label_smoothing, options.axis);
  if (!options.from_logits)
    internal::check_predictions(kName, inputs.predictions, internal::kAnyScale);
  const Tensor alpha = alpha_of(kName, options.alpha, inputs.predictions);
  const Tensor p =
      internal::clipped(options.from_logits ? at::softmax(inputs.predictions, -1)
                                            : internal::scaled_to_one(inputs.predictions));
  const Tensor terms = alpha * focus(p, options.gamma) * inputs.labels * p.log();
  return internal::weighted(kName, -terms.sum(-1), options.sample_weight, options.reduction);
}

}  // namespace muster::inline v0_1::losses
