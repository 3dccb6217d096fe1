// Precision, recall, and the four counts they are made of, at one threshold or several. Labels and
// predictions are [batch..., classes] or [batch]; [batch, 1] counts as [batch]. A label that is not
// 0 is positive; a prediction above the threshold says so. Weights are as in metrics.h, for each
// prediction: [batch] weights all classes of an example.
// All throw InvalidArgument with both shapes when labels and predictions do not fit, for arguments
// that are not as said here, and, when they are computed, for labels and predictions outside of
// [0, 1].
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
  // In [0, 1]; 0.5 when there are none. The result is that of the first one. Where there are
  // several, the parts are the results of all, "threshold_0.3".
  std::vector<double> thresholds{};
};

// Measures the sum of weights where label and prediction are both positive.
MUSTER_EXPORT Metric true_positives(const Tensor& labels, const Tensor& predictions,
                                    const Tensor& weights = {}, const CountOptions& options = {});
// Measures the sum of weights where the prediction alone is positive.
MUSTER_EXPORT Metric false_positives(const Tensor& labels, const Tensor& predictions,
                                     const Tensor& weights = {}, const CountOptions& options = {});
// Measures the sum of weights where neither is positive.
MUSTER_EXPORT Metric true_negatives(const Tensor& labels, const Tensor& predictions,
                                    const Tensor& weights = {}, const CountOptions& options = {});
// Measures the sum of weights where the label alone is positive.
MUSTER_EXPORT Metric false_negatives(const Tensor& labels, const Tensor& predictions,
                                     const Tensor& weights = {}, const CountOptions& options = {});

// Options of precision() and recall().
struct PrecisionOptions {
  // As in CountOptions. With top_k there is none unless one is given: the k largest are positive.
  std::vector<double> thresholds{};
  // Only the k largest predictions of an example may be positive, of equal ones the first: from 1
  // to classes.
  std::optional<int64_t> top_k{};
  // Counts this class alone: from 0 to classes - 1. What is among the k largest is found before.
  std::optional<int64_t> class_id{};
};

// Measures which part of what is predicted positive is so: tp / (tp + fp), and 0 where nothing is
// predicted positive.
MUSTER_EXPORT Metric precision(const Tensor& labels, const Tensor& predictions,
                               const Tensor& weights = {}, const PrecisionOptions& options = {});
// Measures which part of what is positive is predicted so: tp / (tp + fn), and 0 where nothing is
// positive.
MUSTER_EXPORT Metric recall(const Tensor& labels, const Tensor& predictions,
                            const Tensor& weights = {}, const PrecisionOptions& options = {});

}  // namespace muster::inline v0_1::metrics
