// How far predictions are from labels. All are weighted means over examples; weights are as in
// metrics::mean(). Labels and predictions are [batch..., outputs], or [batch] for one output;
// [batch] and [batch, 1] fit each other. Each throws InvalidArgument with both shapes for other
// shapes.
// Thread safety: pure functions.
#pragma once

#include <cstdint>

#include "muster/base/export.h"
#include "muster/metrics/metric.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::metrics {

// Measures the mean over the last axis of |label - prediction|.
MUSTER_EXPORT Metric mean_absolute_error(const Tensor& labels, const Tensor& predictions,
                                         const Tensor& weights = {});
// Measures the mean over the last axis of (label - prediction)^2.
MUSTER_EXPORT Metric mean_squared_error(const Tensor& labels, const Tensor& predictions,
                                        const Tensor& weights = {});
// Measures the square root of the weighted mean of (label - prediction)^2 over all elements.
// Weights may be of the shape of the predictions.
MUSTER_EXPORT Metric root_mean_squared_error(const Tensor& labels, const Tensor& predictions,
                                             const Tensor& weights = {});
// Measures 100 times the mean over the last axis of |label - prediction| / max(|label|, 1e-7).
MUSTER_EXPORT Metric mean_absolute_percentage_error(const Tensor& labels, const Tensor& predictions,
                                                    const Tensor& weights = {});
// Measures the mean over the last axis of (log(label + 1) - log(prediction + 1))^2; values below
// 1e-7 count as 1e-7.
MUSTER_EXPORT Metric mean_squared_logarithmic_error(const Tensor& labels, const Tensor& predictions,
                                                    const Tensor& weights = {});
// Measures the mean of |label - prediction| / normalizer over all elements; a normalizer of 0 gives
// 0. `normalizer` has the shape of the predictions, or broadcasts to it. Weights may have the shape
// of the predictions.
MUSTER_EXPORT Metric mean_relative_error(const Tensor& labels, const Tensor& predictions,
                                         const Tensor& normalizer, const Tensor& weights = {});
// Measures the mean over the last axis of log(cosh(prediction - label)).
MUSTER_EXPORT Metric log_cosh(const Tensor& labels, const Tensor& predictions,
                              const Tensor& weights = {});

// Options of cosine_similarity().
struct CosineSimilarityOptions {
  int64_t axis = -1;  // the axis of the vectors
};

// Measures the cosine of the angle between label and prediction along an axis, 1 for the same
// direction: the sum of the products of both, each divided by its length, which counts as at least
// 1e-6. Also throws InvalidArgument for an axis out of range.
MUSTER_EXPORT Metric cosine_similarity(const Tensor& labels, const Tensor& predictions,
                                       const Tensor& weights = {},
                                       const CosineSimilarityOptions& options = {});

}  // namespace muster::inline v0_1::metrics
