// The performance of a classifier at its best threshold, given a minimum for another measure.
// Labels, predictions, weights and errors are as in precision.h. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>

#include "muster/base/export.h"
#include "muster/metrics/metric.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::metrics {

// Options of these metrics.
struct OperatingPointOptions {
  int64_t num_thresholds = 200;       // from 0 to 1 at equal distances; 1 means only 0.5
  std::optional<int64_t> class_id{};  // counts only this class: from 0 to classes - 1
};

// Each measures the largest value of the first quantity in its name over the thresholds at which
// the second is at least `precision`, `recall`, `sensitivity` or `specificity`, which is in [0, 1];
// 0 if there is no such threshold. Sensitivity is recall; specificity is the fraction of negatives
// that are not predicted positive.
MUSTER_EXPORT Metric precision_at_recall(const Tensor& labels, const Tensor& predictions,
                                         double recall, const Tensor& weights = {},
                                         const OperatingPointOptions& options = {});
MUSTER_EXPORT Metric recall_at_precision(const Tensor& labels, const Tensor& predictions,
                                         double precision, const Tensor& weights = {},
                                         const OperatingPointOptions& options = {});
MUSTER_EXPORT Metric sensitivity_at_specificity(const Tensor& labels, const Tensor& predictions,
                                                double specificity, const Tensor& weights = {},
                                                const OperatingPointOptions& options = {});
MUSTER_EXPORT Metric specificity_at_sensitivity(const Tensor& labels, const Tensor& predictions,
                                                double sensitivity, const Tensor& weights = {},
                                                const OperatingPointOptions& options = {});

}  // namespace muster::inline v0_1::metrics
