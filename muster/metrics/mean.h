// The mean and the sum of values. Thread safety: pure functions.
#pragma once

#include "muster/base/export.h"
#include "muster/metrics/metric.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::metrics {

// Measures the mean of `values` ([batch...], any real dtype). `weights` are a scalar, or have the
// shape of the leading axes of `values`; values are first averaged over the other axes. [batch, 1]
// counts as [batch]. Throws InvalidArgument with both shapes when they do not fit.
MUSTER_EXPORT Metric mean(const Tensor& values, const Tensor& weights = {});

// Measures the sum of `values` times `weights`, which are as in mean(). A weight applies to all
// values along the axes that `weights` lacks.
MUSTER_EXPORT Metric sum(const Tensor& values, const Tensor& weights = {});

}  // namespace muster::inline v0_1::metrics
