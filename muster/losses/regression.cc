#include "muster/losses/regression.h"

#include <cmath>
#include <numbers>

#include "muster/losses/internal/inputs.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::losses {
namespace {

using internal::Fit;
using internal::inputs_of;
using internal::kEpsilon;
using internal::mean_over;

// Divides vectors along `axis` by their lengths.
Tensor directions(const Tensor& vectors, int64_t axis) {
  return vectors * vectors.square().sum(axis, /*keepdim=*/true).clamp_min(1e-12).rsqrt();
}

}  // namespace

Tensor mean_squared_error(const Tensor& labels, const Tensor& predictions,
                          const MeanSquaredErrorOptions& options) {
  const auto [y, p] = inputs_of("mean_squared_error", labels, predictions, Fit::kOutputs);
  return internal::weighted("mean_squared_error", mean_over((p - y).square()),
                            options.sample_weight, options.reduction);
}

Tensor mean_absolute_error(const Tensor& labels, const Tensor& predictions,
                           const MeanAbsoluteErrorOptions& options) {
  const auto [y, p] = inputs_of("mean_absolute_error", labels, predictions, Fit::kOutputs);
  return internal::weighted("mean_absolute_error", mean_over((p - y).abs()), options.sample_weight,
                            options.reduction);
}

Tensor mean_absolute_percentage_error(const Tensor& labels, const Tensor& predictions,
                                      const MeanAbsolutePercentageErrorOptions& options) {
  const auto [y, p] =
      inputs_of("mean_absolute_percentage_error", labels, predictions, Fit::kOutputs);
  const Tensor parts = ((y - p) / y.abs().clamp_min(kEpsilon)).abs();
  return internal::weighted("mean_absolute_percentage_error", 100 * mean_over(parts),
                            options.sample_weight, options.reduction);
}

Tensor mean_squared_logarithmic_error(const Tensor& labels, const Tensor& predictions,
                                      const MeanSquaredLogarithmicErrorOptions& options) {
  const auto [y, p] =
      inputs_of("mean_squared_logarithmic_error", labels, predictions, Fit::kOutputs);
  const Tensor distance = p.clamp_min(kEpsilon).log1p() - y.clamp_min(kEpsilon).log1p();
  return internal::weighted("mean_squared_logarithmic_error", mean_over(distance.square()),
                            options.sample_weight, options.reduction);
}

Tensor huber(const Tensor& labels, const Tensor& predictions, const HuberOptions& options) {
  internal::check_option("huber", "delta", options.delta,
                         options.delta > 0 && std::isfinite(options.delta),
                         "finite and more than 0");
  const auto [y, p] = inputs_of("huber", labels, predictions, Fit::kOutputs);
  return internal::weighted("huber",
                            mean_over(at::huber_loss(p, y, at::Reduction::None, options.delta)),
                            options.sample_weight, options.reduction);
}

Tensor log_cosh(const Tensor& labels, const Tensor& predictions, const LogCoshOptions& options) {
  const auto [y, p] = inputs_of("log_cosh", labels, predictions, Fit::kOutputs);
  const Tensor x = p - y;
  // log(cosh x) = x + log(1 + exp(-2x)) - log 2. Above the threshold log(1 + exp z) is z in double.
  const Tensor terms = x + at::softplus(-2 * x, /*beta=*/1, /*threshold=*/40) - std::numbers::ln2;
  return internal::weighted("log_cosh", mean_over(terms), options.sample_weight, options.reduction);
}

Tensor cosine_similarity(const Tensor& labels, const Tensor& predictions,
                         const CosineSimilarityOptions& options) {
  constexpr const char* kName = "cosine_similarity";
  const auto [y, p] = inputs_of(kName, labels, predictions, Fit::kClasses);
  const int64_t axis = internal::check_axis(kName, options.axis, p);
  return internal::weighted(kName, -(directions(y, axis) * directions(p, axis)).sum(axis),
                            options.sample_weight, options.reduction);
}

}  // namespace muster::inline v0_1::losses
