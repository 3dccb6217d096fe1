// How often predictions are right. All but accuracy_baseline() are weighted means; weights are as
// in metrics::mean().
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

// Measures how often whoever always says the more frequent of two labels is right: max(m, 1 - m),
// where m is the weighted mean of the labels. Labels are of any shape, in [0, 1]; weights are as in
// mean(). The accuracy of a classifier is to be compared with it. Throws InvalidArgument for labels
// outside of [0, 1].
MUSTER_EXPORT Metric accuracy_baseline(const Tensor& labels, const Tensor& weights = {});

// Options of binary_accuracy().
struct BinaryAccuracyOptions {
  double threshold = 0.5;  // predictions above it say 1, others 0
};

// Measures how often a prediction is on the label's side of the threshold: of each example the mean
// over the last axis. Labels and predictions are [batch..., outputs] or [batch]. Throws
// InvalidArgument when the shapes do not fit, and for labels outside of [0, 1].
MUSTER_EXPORT Metric binary_accuracy(const Tensor& labels, const Tensor& predictions,
                                     const Tensor& weights = {},
                                     const BinaryAccuracyOptions& options = {});

// Measures how often the largest prediction is where the largest label is, on the last axis.
// Labels, one-hot, and predictions are [batch..., classes]; of equal ones the first counts. Throws
// InvalidArgument when the shapes do not fit.
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

// Measures how often fewer than k predictions are larger than that of the label, so that equal ones
// count as right, as in TensorFlow's in_top_k; a prediction of the example that is no finite number
// counts as wrong. Shapes and errors are those of categorical_accuracy().
MUSTER_EXPORT Metric top_k_categorical_accuracy(const Tensor& labels, const Tensor& predictions,
                                                const Tensor& weights = {},
                                                const TopKOptions& options = {});

// The same for labels that are class numbers, as in sparse_categorical_accuracy().
MUSTER_EXPORT Metric sparse_top_k_categorical_accuracy(const Tensor& labels,
                                                       const Tensor& predictions,
                                                       const Tensor& weights = {},
                                                       const TopKOptions& options = {});

}  // namespace muster::inline v0_1::metrics
