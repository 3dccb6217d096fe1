// Makes a mergeable Metric of the labels and predictions of a batch. What it measures is computed
// when it is first read or merged, so a metric that nobody reads costs nothing. Do not write the
// tensors before. Thread safety: pure functions.
#pragma once

#include "muster/metrics/metric.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::metrics {

// Measures the mean of `values` ([batch...], any real dtype). Where `weights` are given they weight
// it: a scalar, or of the shape of the leading axes of `values`, whose other axes are then averaged
// first; [batch, 1] counts as [batch]. Throws InvalidArgument with both shapes when they do not
// fit.
Metric mean(const Tensor& values, const Tensor& weights = {});

// Measures how often `predictions` equal `labels`: class numbers of the same shape and any real
// dtypes; [batch, 1] counts as [batch], and weights are as in mean(). Throws InvalidArgument with
// both shapes when they do not fit.
Metric accuracy(const Tensor& labels, const Tensor& predictions, const Tensor& weights = {});

}  // namespace muster::inline v0_1::metrics
