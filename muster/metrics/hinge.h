// Hinges: how far predictions fall short of a margin of 1. All are weighted means over examples;
// weights are as in metrics::mean(). Labels and predictions are [batch..., outputs] or [batch].
// Each throws InvalidArgument with both shapes when they do not fit.
// Thread safety: pure functions.
#pragma once

#include "muster/base/export.h"
#include "muster/metrics/metric.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::metrics {

// Measures the mean over the last axis of max(1 - label prediction, 0). Labels are -1 or 1; 0
// counts as -1. Throws InvalidArgument for other labels.
MUSTER_EXPORT Metric hinge(const Tensor& labels, const Tensor& predictions,
                           const Tensor& weights = {});
// Measures the mean over the last axis of the square of max(1 - label prediction, 0). Labels are as
// in hinge().
MUSTER_EXPORT Metric squared_hinge(const Tensor& labels, const Tensor& predictions,
                                   const Tensor& weights = {});
// Measures max(1 + n - p, 0) of each example, where p is the sum over the last axis of label
// prediction and n the largest (1 - label) prediction. Labels are one-hot.
MUSTER_EXPORT Metric categorical_hinge(const Tensor& labels, const Tensor& predictions,
                                       const Tensor& weights = {});

}  // namespace muster::inline v0_1::metrics
