// Counts of predicted classes by true classes, and metrics computed from them. Labels and
// predictions are class numbers, 0 to num_classes - 1, both of the same shape and of real dtypes;
// [batch, 1] counts as [batch]. Weights are as in metrics.h, one for each number. All throw
// InvalidArgument with both shapes when they do not fit, for num_classes below 1, and, when they
// are computed, for a number that is not a class.
// Thread safety: pure functions.
#pragma once

#include <cstdint>

#include "muster/base/export.h"
#include "muster/metrics/metric.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::metrics {

// Measures the sums of weights by label and prediction. The parts are the matrix, row by row: rows
// are labels, columns are predictions, "label_0/prediction_1". The result is the fraction on the
// diagonal. num_classes^2 numbers are shown, sent and kept for each batch of an evaluation.
MUSTER_EXPORT Metric confusion_matrix(const Tensor& labels, const Tensor& predictions,
                                      int64_t num_classes, const Tensor& weights = {});

// Measures for each class the fraction of its predictions that are right: tp / (tp + fp), and 0 for
// a class that is never predicted. The parts are these, "class_0", and the result is their mean.
MUSTER_EXPORT Metric per_class_precision(const Tensor& labels, const Tensor& predictions,
                                         int64_t num_classes, const Tensor& weights = {});
// Measures for each class the fraction of its labels that are predicted: tp / (tp + fn), and 0 for
// a class without labels. The parts are these, "class_0", and the result is their mean.
MUSTER_EXPORT Metric per_class_recall(const Tensor& labels, const Tensor& predictions,
                                      int64_t num_classes, const Tensor& weights = {});

}  // namespace muster::inline v0_1::metrics
