#include "muster/metrics/regression.h"

#include <fmt/format.h>

#include <cmath>

#include "muster/base/error.h"
#include "muster/metrics/internal/arguments.h"
#include "muster/metrics/internal/weighted_mean.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::metrics {
namespace {

constexpr double kRegressionEpsilon = 1e-7;  // Keras's backend epsilon
constexpr double kSquaredLength = 1e-12;     // the least that l2_normalize divides by

using Elementwise = Tensor (*)(const Tensor& labels, const Tensor& predictions);

Tensor as_float64(const Tensor& tensor) { return tensor.to(at::kDouble); }

// Measures the mean over the last axis of `error` for each element.
Metric mean_over_outputs(const char* metric, const Tensor& labels, const Tensor& predictions,
                         const Tensor& weights, Elementwise error) {
  return internal::mean_over_examples(
      metric, labels, predictions, weights, [error](const internal::Labeled& given) {
        return error(as_float64(given.labels), as_float64(given.predictions)).mean(-1);
      });
}

// x * rsqrt(max(sum of squares, 1e-12)), as tf.math.l2_normalize does.
Tensor l2_normalized(const Tensor& vectors, int64_t axis) {
  return vectors * vectors.square().sum(axis, /*keepdim=*/true).clamp_min(kSquaredLength).rsqrt();
}

}  // namespace

Metric mean_absolute_error(const Tensor& labels, const Tensor& predictions, const Tensor& weights) {
  return mean_over_outputs(
      "mean_absolute_error", labels, predictions, weights,
      [](const Tensor& label, const Tensor& prediction) { return (label - prediction).abs(); });
}

Metric mean_squared_error(const Tensor& labels, const Tensor& predictions, const Tensor& weights) {
  return mean_over_outputs(
      "mean_squared_error", labels, predictions, weights,
      [](const Tensor& label, const Tensor& prediction) { return (label - prediction).square(); });
}

Metric root_mean_squared_error(const Tensor& labels, const Tensor& predictions,
                               const Tensor& weights) {
  constexpr const char* kName = "root_mean_squared_error";
  const internal::Labeled given = internal::in_one_shape(kName, labels, predictions);
  return internal::weighted_mean(
      kName, given.predictions.sizes().vec(),
      [given] { return (as_float64(given.labels) - as_float64(given.predictions)).square(); },
      weights, "predictions", predictions);
}

Metric mean_absolute_percentage_error(const Tensor& labels, const Tensor& predictions,
                                      const Tensor& weights) {
  return mean_over_outputs("mean_absolute_percentage_error", labels, predictions, weights,
                           [](const Tensor& label, const Tensor& prediction) {
                             const Tensor least = label.abs().clamp_min(kRegressionEpsilon);
                             return 100 * ((label - prediction) / least).abs();
                           });
}

Metric mean_squared_logarithmic_error(const Tensor& labels, const Tensor& predictions,
                                      const Tensor& weights) {
  return mean_over_outputs("mean_squared_logarithmic_error", labels, predictions, weights,
                           [](const Tensor& label, const Tensor& prediction) {
                             const auto log1 = [](const Tensor& x) {
                               return x.clamp_min(kRegressionEpsilon).log1p();
                             };
                             return (log1(label) - log1(prediction)).square();
                           });
}

Metric mean_relative_error(const Tensor& labels, const Tensor& predictions,
                           const Tensor& normalizer, const Tensor& weights) {
  constexpr const char* kName = "mean_relative_error";
  const internal::Labeled given = internal::in_one_shape(kName, labels, predictions);
  internal::check_defined(kName, "normalizer", normalizer);
  Tensor by = normalizer.detach();
  if (by.dim() == given.predictions.dim() + 1 && by.size(-1) == 1) by = by.squeeze(-1);
  const auto sizes = given.predictions.sizes();
  bool fits = by.dim() <= given.predictions.dim();
  for (int64_t axis = 1; fits && axis <= by.dim(); ++axis)
    fits = by.size(-axis) == 1 || by.size(-axis) == given.predictions.size(-axis);
  if (!fits) {
    throw invalid_argument(
        fmt::format("metrics::{}: normalizer {} does not broadcast to predictions {}", kName,
                    describe(normalizer), describe(predictions)),
        "give one number, or one for each output or element");
  }
  return internal::weighted_mean(
      kName, sizes.vec(),
      [given, by] {
        const Tensor divisor = as_float64(by).expand(given.predictions.sizes());
        const Tensor error =
            (as_float64(given.labels) - as_float64(given.predictions)).abs() / divisor;
        return error.masked_fill(divisor.eq(0), 0);
      },
      weights, "predictions", predictions);
}

Metric log_cosh(const Tensor& labels, const Tensor& predictions, const Tensor& weights) {
  return mean_over_outputs("log_cosh", labels, predictions, weights,
                           [](const Tensor& label, const Tensor& prediction) {
                             const Tensor x = prediction - label;
                             return x + at::softplus(-2 * x, 1, /*threshold=*/40) - std::log(2.0);
                           });
}

Metric cosine_similarity(const Tensor& labels, const Tensor& predictions, const Tensor& weights,
                         const CosineSimilarityOptions& options) {
  constexpr const char* kName = "cosine_similarity";
  const internal::Labeled given = internal::with_outputs(kName, labels, predictions);
  const int64_t rank = given.predictions.dim();
  if (options.axis < -rank || options.axis >= rank) {
    internal::refuse(
        kName, "axis", std::to_string(options.axis),
        fmt::format("in [{}, {}) for predictions {}", -rank, rank, describe(predictions)));
  }
  Shape form = given.predictions.sizes().vec();
  form.erase(form.begin() + (options.axis + rank) % rank);
  return internal::weighted_mean(
      kName, form,
      [given, axis = options.axis] {
        return (l2_normalized(as_float64(given.labels), axis) *
                l2_normalized(as_float64(given.predictions), axis))
            .sum(axis);
      },
      weights, "predictions", predictions);
}

}  // namespace muster::inline v0_1::metrics
