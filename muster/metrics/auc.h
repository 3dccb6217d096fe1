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

// Which curve: true positive rate over false positive rate, or precision over recall.
enum class Curve { kRoc, kPr };

// How the area between two thresholds is taken. kInterpolation is trapezoids for kRoc; for kPr it
// interpolates true positives instead of precisions (Davis & Goadrich, 2006), which
// tf.metrics.auc calls "careful_interpolation". kMinoring and kMajoring take the lower and the
// higher of two neighbours. kTrapezoidal is the default of tf.metrics.auc: trapezoids for both
// curves, with 1e-6 added to what is divided; it overestimates the area for kPr.
enum class SummationMethod { kInterpolation, kMinoring, kMajoring, kTrapezoidal };

// Options of auc().
struct AucOptions {
  int64_t num_thresholds =
      200;  // at least 2; at equal distances, with the ends just outside [0, 1]
  Curve curve = Curve::kRoc;
  SummationMethod summation_method = SummationMethod::kInterpolation;
  // In [0, 1], in place of num_thresholds; two ends just outside are added.
  std::vector<double> thresholds{};
  // An area for each place of the last axis. The result is their mean, weighted by label_weights;
  // the parts are the areas, "label_0".
  bool multi_label = false;
  // Not negative, one for each place of the last axis. Without multi_label they weight the
  // predictions of these places.
  std::vector<double> label_weights{};
  bool from_logits = false;  // predictions are logits: their sigmoid is compared
};

// Measures the area under the curve. Labels and predictions are [batch..., labels] or [batch];
// [batch, 1] counts as [batch]. A label that is not 0 is positive. At each threshold counts are
// taken of what is above it; no positive or no negative labels give 0 for kRoc, as in Keras, and a
// warning with the result. So does an order of the predictions that the thresholds do not see, as
// where all are below the second one: more than a tenth of the pairs of a positive and a negative
// example, with predictions that differ, lie between the same two. Thresholds of your own are taken
// as they are. Weights are as in metrics.h, for each prediction. The state is two counts and the
// range of the predictions for each threshold, so that batches and replicas merge into the area
// over all.
// Throws InvalidArgument with both shapes when they do not fit, for options that are not as said
// there, and, when it is computed, for labels and predictions outside of [0, 1].
MUSTER_EXPORT Metric auc(const Tensor& labels, const Tensor& predictions,
                         const Tensor& weights = {}, const AucOptions& options = {});

}  // namespace muster::inline v0_1::metrics
