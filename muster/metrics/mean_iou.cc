#include "muster/metrics/mean_iou.h"

#include <span>
#include <string>
#include <vector>

#include "muster/metrics/internal/arguments.h"
#include "muster/metrics/internal/class_pairs.h"
#include "muster/metrics/internal/known_kinds.h"
#include "muster/metrics/internal/threshold_counts.h"

namespace muster::inline v0_1::metrics {
namespace {

using Numbers = std::span<const double>;

double mean_of_seen(Numbers matrix, size_t classes) {
  double sum = 0, seen = 0;
  for (size_t c = 0; c < classes; ++c) {
    double union_of_both = -matrix[c * classes + c];
    for (size_t i = 0; i < classes; ++i)
      union_of_both += matrix[c * classes + i] + matrix[i * classes + c];
    sum += internal::ratio(matrix[c * classes + c], union_of_both);
    if (union_of_both != 0) ++seen;
  }
  return internal::ratio(sum, seen);
}

}  // namespace

Metric mean_iou(const Tensor& labels, const Tensor& predictions, int64_t num_classes,
                const Tensor& weights, const MeanIouOptions& options) {
  constexpr const char* kName = "mean_iou";
  const auto kind = internal::known_kind(internal::name_with_classes(kName, num_classes), [&] {
    const auto n = static_cast<size_t>(num_classes);
    MetricKind made;
    made.empty.resize(n * n);
    made.merge = add_metric_states;
    made.result = [n](Numbers state) { return mean_of_seen(state, n); };
    made.better = Better::kHigher;
    made.caution = [](Numbers state) -> std::string {
      for (const double count : state) {
        if (count != 0) return "";
      }
      return "no label counts, so nothing was measured: 0 has no meaning";
    };
    return made;
  });
  return internal::of_class_pairs(kName, kind, labels, predictions, num_classes, weights,
                                  internal::add_to_matrix, options.ignore_class);
}

}  // namespace muster::inline v0_1::metrics
