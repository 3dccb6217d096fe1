// Cross-entropies and similar metrics: how far predicted distributions are from labels. All are
// weighted means over examples; weights are as in metrics::mean(). Each throws InvalidArgument with
// both shapes when labels and predictions do not fit. A logarithm's argument below 1e-7 counts as
// 1e-7, as in Keras.
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>

#include "muster/base/export.h"
#include "muster/metrics/metric.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::metrics {

// Options of binary_crossentropy() and categorical_crossentropy().
struct CrossentropyOptions {
  bool from_logits = false;    // predictions are logits, not probabilities
  double label_smoothing = 0;  // in [0, 1]: the fraction of each label that is spread over the
                               // classes
};

// Measures the mean over the last axis of -label log(p) - (1 - label) log(1 - p). Labels in [0, 1]
// and predictions are [batch..., outputs] or [batch]. Probabilities are clipped to [1e-7, 1 -
// 1e-7], and 1e-7 is added to the arguments of logarithms. Smoothing moves labels towards 1/2. Also
// throws InvalidArgument for labels outside of [0, 1].
MUSTER_EXPORT Metric binary_crossentropy(const Tensor& labels, const Tensor& predictions,
                                         const Tensor& weights = {},
                                         const CrossentropyOptions& options = {});

// Measures the sum over the last axis of -label log(p). Labels, one-hot or a distribution, and
// predictions are [batch..., classes]. Probabilities are scaled to sum 1, then clipped to
// [1e-7, 1 - 1e-7].
MUSTER_EXPORT Metric categorical_crossentropy(const Tensor& labels, const Tensor& predictions,
                                              const Tensor& weights = {},
                                              const CrossentropyOptions& options = {});

// Options of sparse_categorical_crossentropy().
struct SparseCategoricalCrossentropyOptions {
  bool from_logits = false;
  std::optional<int64_t> ignore_class{};  // examples with this label do not count; often -1 or 255
};

// Measures -log(p[label]). Labels are class numbers, [batch...] or [batch..., 1]; predictions are
// [batch..., classes]. Probabilities are clipped to [1e-7, 1 - 1e-7], then scaled to sum 1. Throws
// InvalidArgument also for a label outside of [0, classes).
MUSTER_EXPORT Metric sparse_categorical_crossentropy(
    const Tensor& labels, const Tensor& predictions, const Tensor& weights = {},
    const SparseCategoricalCrossentropyOptions& options = {});

// Measures the sum over the last axis of label log(label / prediction), both clipped to [1e-7, 1].
MUSTER_EXPORT Metric kl_divergence(const Tensor& labels, const Tensor& predictions,
                                   const Tensor& weights = {});

// Measures the mean over the last axis of prediction - label log(prediction + 1e-7).
MUSTER_EXPORT Metric poisson(const Tensor& labels, const Tensor& predictions,
                             const Tensor& weights = {});

}  // namespace muster::inline v0_1::metrics
