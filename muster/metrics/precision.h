// Precision, recall, and the four counts that define them, at one threshold or several. Labels and
// predictions are [batch..., classes] or [batch]; [batch, 1] counts as [batch]. A label other than
// 0 is positive; a prediction above the threshold is positive. Weights are as in metrics.h, for
// each prediction: [batch] weights all classes of an example.
// All throw InvalidArgument with both shapes when labels and predictions do not fit, if an option
// is outside its documented range, and, when they are computed, for labels and predictions outside
// of [0, 1].
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "muster/base/export.h"
#include "muster/metrics/metric.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::metrics {

// Options of the four counts.
struct CountOptions {
  // In [0, 1]; empty: 0.5. The result is that of the first threshold. With several thresholds, the
  // parts are the results of all, "threshold_0.3".
  std::vector<double> thresholds{};
};

// Measures the sum of weights of elements whose label and prediction are positive.
MUSTER_EXPORT Metric true_positives(const Tensor& labels, const Tensor& predictions,
                                    const Tensor& weights = {}, const CountOptions& options = {});
// Measures the sum of weights of elements whose prediction is positive and label is not.
MUSTER_EXPORT Metric false_positives(const Tensor& labels, const Tensor& predictions,
                                     const Tensor& weights = {}, const CountOptions& options = {});
// Measures the sum of weights of elements whose label and prediction are negative.
MUSTER_EXPORT Metric true_negatives(const Tensor& labels, const Tensor& predictions,
                                    const Tensor& weights = {}, const CountOptions& options = {});
// Measures the sum of weights of elements whose label is positive and prediction is not.
MUSTER_EXPORT Metric false_negatives(const Tensor& labels, const Tensor& predictions,
                                     const Tensor& weights = {}, const CountOptions& options = {});

// Options of precision() and recall().
struct PrecisionOptions {
  // As in CountOptions. With top_k and no thresholds, the k largest predictions are positive.
  std::vector<double> thresholds{};
  // Only the k largest predictions of an example may be positive, the first among equals: 1 to
  // classes.
  std::optional<int64_t> top_k{};
  // Counts only this class: from 0 to classes - 1. The k largest are chosen among all classes.
  std::optional<int64_t> class_id{};
};

// Measures the fraction of positive predictions that are right: tp / (tp + fp), and 0 without
// positive predictions.
MUSTER_EXPORT Metric precision(const Tensor& labels, const Tensor& predictions,
                               const Tensor& weights = {}, const PrecisionOptions& options = {});
// Measures the fraction of positive labels that are predicted: tp / (tp + fn), and 0 without
// positive labels.
MUSTER_EXPORT Metric recall(const Tensor& labels, const Tensor& predictions,
                            const Tensor& weights = {}, const PrecisionOptions& options = {});

}  // namespace muster::inline v0_1::metrics
