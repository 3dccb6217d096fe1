// Metrics that are the weighted mean of values, one for each example.
// Thread safety: pure functions.
#pragma once

#include <functional>
#include <vector>

#include "muster/metrics/internal/arguments.h"
#include "muster/metrics/metric.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::metrics::internal {

// Makes a metric of the kind of that name, whose state is the weighted sum of the values and the
// sum of weights. `values` returns them, in the shape `form`, when they are needed. Weights are as
// in fit_weights(); if they have only leading axes, the values are averaged over the others first.
Metric weighted_mean(const char* metric, const Shape& form, std::function<Tensor()> values,
                     const Tensor& weights, const char* name, const Tensor& fitted);

// Makes such a metric of labels and predictions of one shape, [batch..., outputs] or [batch]:
// `each` gives a value for each example, [batch...], where predictions of [batch] come as
// [batch, 1]. Throws InvalidArgument with both shapes when they do not fit.
Metric mean_over_examples(const char* metric, const Tensor& labels, const Tensor& predictions,
                          const Tensor& weights, std::function<Tensor(const Labeled&)> each);

// Returns this state. The weights come from fit_weights().
std::vector<double> weighted_sums(const Tensor& values, const Tensor& weights);

}  // namespace muster::inline v0_1::metrics::internal
