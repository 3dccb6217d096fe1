// Metrics of a batch: labels and predictions in, a mergeable Metric out. What they measure is
// computed when it is first read or merged, so a metric nobody looks at costs nothing; do not write
// the tensors before. Thread safety: pure functions.
#pragma once

#include "muster/metrics/metric.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::metrics {

// The mean of `values` ([batch...], any real dtype), weighted by `weights` where given: a scalar,
// or of the shape of the leading axes of `values`, whose other axes are then averaged first;
// [batch, 1] counts as [batch]. Throws InvalidArgument showing both shapes when they do not fit.
Metric mean(const Tensor& values, const Tensor& weights = {});

// How often `predictions` equal `labels`: class numbers of the same shape and any real dtypes
// ([batch, 1] counts as [batch]); weights as in mean(). Throws InvalidArgument showing both shapes
// when they do not fit.
Metric accuracy(const Tensor& labels, const Tensor& predictions, const Tensor& weights = {});

}  // namespace muster::inline v0_1::metrics
