// The area under a curve, from counts at many thresholds.
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "muster/base/export.h"
#include "muster/metrics/metric.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::metrics {

// The curve: true positive rate over false positive rate, or precision over recall.
enum class Curve { kRoc, kPr };

// How to compute the area between two thresholds. kInterpolation: trapezoids for kRoc; for kPr it
// interpolates true positives instead of precisions (Davis & Goadrich, 2006), which tf.metrics.auc
// calls "careful_interpolation". kMinoring and kMajoring use the lower and the higher of two
// neighbours. kTrapezoidal is the default of tf.metrics.auc: trapezoids for both curves, with 1e-6
// added to divisors; it overestimates the area for kPr.
enum class SummationMethod { kInterpolation, kMinoring, kMajoring, kTrapezoidal };

// Options of auc().
struct AucOptions {
  int64_t num_thresholds =
      200;  // at least 2; at equal distances, with the ends just outside [0, 1]
  Curve curve = Curve::kRoc;
  SummationMethod summation_method = SummationMethod::kInterpolation;
  // In [0, 1]; they replace num_thresholds. Two ends just outside are added.
  std::vector<double> thresholds{};
  // Whether each index of the last axis has its own area. The result is their mean, weighted by
  // label_weights; the parts are the areas, "label_0".
  bool multi_label = false;
  // Not negative, one for each index of the last axis. Without multi_label they weight the
  // predictions at that index.
  std::vector<double> label_weights{};
  bool from_logits = false;  // predictions are logits: their sigmoid is used
};

// Measures the area under the curve. Labels and predictions are [batch..., labels] or [batch];
// [batch, 1] counts as [batch]. A label other than 0 is positive. At each threshold it counts the
// predictions above it. Without positive or without negative labels kRoc gives 0, as in Keras, and
// the result logs a warning.
//
// A warning also appears if the thresholds cannot separate the predictions, for example if all are
// below the second threshold: more than a tenth of the pairs of a positive and a negative example,
// with different predictions, are between the same two thresholds. Your own thresholds are used
// unchanged. Weights are as in metrics.h, for each prediction. The state is two counts and the
// range of the predictions for each threshold, so batches and replicas merge into the area over
// all.
//
// Throws InvalidArgument with both shapes when they do not fit, if an option is outside its
// documented range, and, when it is computed, for labels and predictions outside of [0, 1].
MUSTER_EXPORT Metric auc(const Tensor& labels, const Tensor& predictions,
                         const Tensor& weights = {}, const AucOptions& options = {});

}  // namespace muster::inline v0_1::metrics
