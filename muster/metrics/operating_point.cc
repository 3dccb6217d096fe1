#include "muster/metrics/operating_point.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/metrics/internal/known_kinds.h"
#include "muster/metrics/internal/threshold_counts.h"

namespace muster::inline v0_1::metrics {
namespace {

using internal::ConfusionCounts;
using internal::ratios;

// Reads a number for each threshold.
using ReadRates = std::vector<double> (*)(const ConfusionCounts& counts);

std::vector<double> precisions(const ConfusionCounts& counts) {
  return ratios(counts.true_positives, counts.false_positives);
}

std::vector<double> sensitivities(const ConfusionCounts& counts) {
  return ratios(counts.true_positives, counts.false_negatives);
}

std::vector<double> specificities(const ConfusionCounts& counts) {
  return ratios(counts.true_negatives, counts.false_positives);
}

// The argument `constraint` names the quantity that `constrained` reads and that must be at least
// `least`.
struct OperatingPoint {
  const char* metric;
  const char* constraint;
  double least;
  ReadRates constrained;
  ReadRates wanted;
};

MetricKind kind_of(const OperatingPoint& point, size_t thresholds) {
  MetricKind kind;
  kind.empty.resize(2 * (thresholds + 1));
  kind.merge = add_metric_states;
  kind.better = Better::kHigher;
  kind.caution = [point](std::span<const double> state) {
    const ConfusionCounts counts = internal::confusion_counts(state);
    const bool positives = counts.true_positives[0] + counts.false_negatives[0] > 0;
    const bool negatives = counts.false_positives[0] + counts.true_negatives[0] > 0;
    if (!positives || !negatives) {
      return fmt::format("{} label is positive: the number says nothing of the model",
                         positives ? "every" : "no");
    }
    const std::vector<double> constrained = point.constrained(counts);
    if (std::ranges::any_of(constrained, [&](double rate) { return rate >= point.least; }))
      return std::string();
    return fmt::format("no threshold reaches a {} of {}: the value is undefined, shown as 0",
                       point.constraint, point.least);
  };
  kind.result = [point](std::span<const double> state) {
    const ConfusionCounts counts = internal::confusion_counts(state);
    const std::vector<double> constrained = point.constrained(counts);
    const std::vector<double> wanted = point.wanted(counts);
    double best = 0;
    for (size_t t = 0; t < wanted.size(); ++t) {
      if (constrained[t] >= point.least) best = std::max(best, wanted[t]);
    }
    return best;
  };
  return kind;
}

Metric measured_at(const OperatingPoint& point, const Tensor& labels, const Tensor& predictions,
                   const Tensor& weights, const OperatingPointOptions& options) {
  internal::check_fraction(point.metric, point.constraint, point.least);
  internal::check_at_least(point.metric, "num_thresholds", options.num_thresholds, 1);
  std::vector<double> thresholds = options.num_thresholds == 1
                                       ? std::vector<double>{0.5}
                                       : internal::even_thresholds(options.num_thresholds, 0, 1);
  std::string name = fmt::format("{}({}={}, num_thresholds={}", point.metric, point.constraint,
                                 point.least, options.num_thresholds);
  if (options.class_id) name += fmt::format(", class_id={}", *options.class_id);
  const auto kind =
      internal::known_kind(name + ")", [&] { return kind_of(point, thresholds.size()); });
  return internal::count_above(point.metric, kind,
                               internal::with_outputs(point.metric, labels, predictions), weights,
                               {.thresholds = std::move(thresholds), .class_id = options.class_id});
}

}  // namespace

Metric precision_at_recall(const Tensor& labels, const Tensor& predictions, double recall,
                           const Tensor& weights, const OperatingPointOptions& options) {
  return measured_at({"precision_at_recall", "recall", recall, sensitivities, precisions}, labels,
                     predictions, weights, options);
}

Metric recall_at_precision(const Tensor& labels, const Tensor& predictions, double precision,
                           const Tensor& weights, const OperatingPointOptions& options) {
  return measured_at({"recall_at_precision", "precision", precision, precisions, sensitivities},
                     labels, predictions, weights, options);
}

Metric sensitivity_at_specificity(const Tensor& labels, const Tensor& predictions,
                                  double specificity, const Tensor& weights,
                                  const OperatingPointOptions& options) {
  return measured_at(
      {"sensitivity_at_specificity", "specificity", specificity, specificities, sensitivities},
      labels, predictions, weights, options);
}

Metric specificity_at_sensitivity(const Tensor& labels, const Tensor& predictions,
                                  double sensitivity, const Tensor& weights,
                                  const OperatingPointOptions& options) {
  return measured_at(
      {"specificity_at_sensitivity", "sensitivity", sensitivity, sensitivities, specificities},
      labels, predictions, weights, options);
}

}  // namespace muster::inline v0_1::metrics
