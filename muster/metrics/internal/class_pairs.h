// Metrics that count pairs of a label and a prediction, both class numbers. Thread safety: pure
// functions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "muster/metrics/metric.h"
#include "muster/metrics/metric_kind.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::metrics::internal {

// Adds one pair of a batch to a state.
using AddPair = void (*)(double* state, int64_t classes, int64_t label, int64_t prediction,
                         double weight);

// Makes a metric whose state `add` is called on for each label and prediction.
Metric of_class_pairs(const char* metric, std::shared_ptr<const MetricKind> kind,
                      const Tensor& labels, const Tensor& predictions, int64_t classes,
                      const Tensor& weights, AddPair add, std::optional<int64_t> ignored = {});

// AddPair for square matrices, [label][prediction].
void add_to_matrix(double* state, int64_t classes, int64_t label, int64_t prediction,
                   double weight);

// Names a kind of metric that depends on the number of classes: "mean_iou(3)". Throws
// InvalidArgument if that is below 1.
std::string name_with_classes(const char* metric, int64_t classes);

}  // namespace muster::inline v0_1::metrics::internal
