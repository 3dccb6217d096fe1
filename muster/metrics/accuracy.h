// How often predictions are right. All metrics except accuracy_baseline() are weighted means;
// weights are as in metrics::mean().
// Thread safety: pure functions.
#pragma once

#include <cstdint>

#include "muster/base/export.h"
#include "muster/metrics/metric.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::metrics {

// Measures how often `predictions` equal `labels`: class numbers of the same shape and any real
// dtypes; [batch, 1] counts as [batch], and weights are as in mean(). Throws InvalidArgument with
// both shapes when they do not fit.
MUSTER_EXPORT Metric accuracy(const Tensor& labels, const Tensor& predictions,
                              const Tensor& weights = {});

// Measures the accuracy of always predicting the more frequent of two labels: max(m, 1 - m), where
// m is the weighted mean of the labels. Labels are of any shape, in [0, 1]; weights are as in
// mean(). Compare a classifier's accuracy with it. Throws InvalidArgument for labels outside of [0,
// 1].
MUSTER_EXPORT Metric accuracy_baseline(const Tensor& labels, const Tensor& weights = {});

// Options of binary_accuracy().
struct BinaryAccuracyOptions {
  double threshold = 0.5;  // predictions above it mean 1, others 0
};

// Measures how often prediction and label are on the same side of the threshold; each example
// counts with its mean over the last axis. Labels and predictions are [batch..., outputs] or
// [batch]. Throws InvalidArgument when the shapes do not fit, and for labels outside of [0, 1].
MUSTER_EXPORT Metric binary_accuracy(const Tensor& labels, const Tensor& predictions,
                                     const Tensor& weights = {},
                                     const BinaryAccuracyOptions& options = {});

// Measures how often the largest prediction and the largest label are at the same index of the last
// axis. Labels (one-hot) and predictions are [batch..., classes]; the first of equal ones counts.
// Throws InvalidArgument when the shapes do not fit.
MUSTER_EXPORT Metric categorical_accuracy(const Tensor& labels, const Tensor& predictions,
                                          const Tensor& weights = {});

// The same for labels that are class numbers, [batch...] or [batch..., 1]. Throws InvalidArgument
// also for a label outside of [0, classes).
MUSTER_EXPORT Metric sparse_categorical_accuracy(const Tensor& labels, const Tensor& predictions,
                                                 const Tensor& weights = {});

// Options of top_k_categorical_accuracy() and sparse_top_k_categorical_accuracy().
struct TopKOptions {
  int64_t k = 5;  // at least 1
};

// Measures how often fewer than k predictions are larger than the label's prediction, so ties count
// as right, as in TensorFlow's in_top_k. An example with a prediction that is not finite counts as
// wrong. Shapes and errors are those of categorical_accuracy().
MUSTER_EXPORT Metric top_k_categorical_accuracy(const Tensor& labels, const Tensor& predictions,
                                                const Tensor& weights = {},
                                                const TopKOptions& options = {});

// The same for labels that are class numbers, as in sparse_categorical_accuracy().
MUSTER_EXPORT Metric sparse_top_k_categorical_accuracy(const Tensor& labels,
                                                       const Tensor& predictions,
                                                       const Tensor& weights = {},
                                                       const TopKOptions& options = {});

}  // namespace muster::inline v0_1::metrics
