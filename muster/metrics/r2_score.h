// The coefficient of determination. Thread safety: pure functions.
#pragma once

#include <cstdint>

#include "muster/base/export.h"
#include "muster/metrics/metric.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::metrics {

// How scores of outputs become one. kNone: the parts are the scores, "output_0", and the result is
// their mean. kVarianceWeighted weights them by the variance of their labels.
enum class ClassAggregation { kNone, kUniform, kVarianceWeighted };

// Options of r2_score().
struct R2ScoreOptions {
  ClassAggregation class_aggregation = ClassAggregation::kUniform;
  // Above 0: the adjusted score for this number of model inputs, if there are more labels than it
  // plus 1. Not negative.
  int64_t num_regressors = 0;
};

// Measures 1 - sum of (label - prediction)^2 / sum of (label - mean label)^2 for each output, and 0
// if all labels of an output are equal. Labels and predictions are [batch..., outputs] or [batch].
// Weights are as in metrics.h. Throws InvalidArgument with both shapes when they do not fit, and
// for num_regressors below 0.
MUSTER_EXPORT Metric r2_score(const Tensor& labels, const Tensor& predictions,
                              const Tensor& weights = {}, const R2ScoreOptions& options = {});

}  // namespace muster::inline v0_1::metrics
