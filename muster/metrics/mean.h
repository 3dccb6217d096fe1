// The mean and the sum of values. Thread safety: pure functions.
#pragma once

#include "muster/base/export.h"
#include "muster/metrics/metric.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::metrics {

// Measures the mean of `values` ([batch...], any real dtype). Where `weights` are given they weight
// it: a scalar, or of the shape of the leading axes of `values`, whose other axes are then averaged
// first; [batch, 1] counts as [batch]. Throws InvalidArgument with both shapes when they do not
// fit.
MUSTER_EXPORT Metric mean(const Tensor& values, const Tensor& weights = {});

// Measures the sum of `values` times `weights`, which are as in mean(); each weights all values
// along the axes it lacks.
MUSTER_EXPORT Metric sum(const Tensor& values, const Tensor& weights = {});

}  // namespace muster::inline v0_1::metrics
