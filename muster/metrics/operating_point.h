// What a classifier reaches at the best threshold that keeps another number up. Labels,
// predictions, weights and errors are as in precision.h. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>

#include "muster/base/export.h"
#include "muster/metrics/metric.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::metrics {

// Options of these metrics.
struct OperatingPointOptions {
  int64_t num_thresholds = 200;       // from 0 to 1 at equal distances; 1 is 0.5 alone
  std::optional<int64_t> class_id{};  // counts this class alone: from 0 to classes - 1
};

// Each measures the largest of its numbers over the thresholds at which the other is at least
// `precision`, `recall`, `sensitivity` or `specificity`, which is in [0, 1]; 0 where there is no
// such threshold. Sensitivity is recall, and specificity the part of what is not positive that is
// not predicted so.
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
