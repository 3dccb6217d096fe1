// Intersection over union, for segmentation. Labels and predictions are class numbers, 0 to
// num_classes - 1, both of the same shape and of real dtypes; [batch, 1] counts as [batch]. Weights
// are as in metrics.h, one for each number. Throws InvalidArgument with both shapes when they do
// not fit, for num_classes below 1, and, when it is computed, for a number that is not a class.
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>

#include "muster/base/export.h"
#include "muster/metrics/metric.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::metrics {

// Options of mean_iou().
struct MeanIouOptions {
  std::optional<int64_t> ignore_class{};  // elements with this label do not count; often -1 or 255
};

// Measures tp / (tp + fp + fn), intersection over union, as the mean over the classes that
// occurred.
MUSTER_EXPORT Metric mean_iou(const Tensor& labels, const Tensor& predictions, int64_t num_classes,
                              const Tensor& weights = {}, const MeanIouOptions& options = {});

}  // namespace muster::inline v0_1::metrics
