#include "muster/metrics/confusion_matrix.h"

#include <fmt/format.h>

#include "muster/metrics/internal/arguments.h"
#include "muster/metrics/internal/class_pairs.h"
#include "muster/metrics/internal/known_kinds.h"
#include "muster/metrics/internal/threshold_counts.h"

namespace muster::inline v0_1::metrics {
namespace {

using Numbers = std::span<const double>;

double part_on_diagonal(Numbers matrix, size_t classes) {
  double right = 0, all = 0;
  for (size_t i = 0; i < matrix.size(); ++i) {
    all += matrix[i];
    if (i / classes == i % classes) right += matrix[i];
  }
  return internal::ratio(right, all);
}

// States of the correct ones in each class, then of all to which the rate refers.
MetricKind kind_of_rates(size_t classes, const char* undefined) {
  MetricKind kind;
  kind.better = Better::kHigher;
  kind.caution = [classes, undefined](Numbers state) {
    std::vector<size_t> missing;
    for (size_t c = 0; c < classes; ++c) {
      if (state[classes + c] == 0) missing.push_back(c);
    }
    if (missing.empty()) return std::string();
    return fmt::format("{} {}: the rate is undefined and counts as 0, also in the mean", undefined,
                       internal::which_classes(missing));
  };
  kind.empty.resize(2 * classes);
  kind.merge = add_metric_states;
  kind.parts = [classes](Numbers state) {
    std::vector<double> rates;
    for (size_t c = 0; c < classes; ++c)
      rates.push_back(internal::ratio(state[c], state[classes + c]));
    return rates;
  };
  kind.result = [rates = kind.parts](Numbers state) {
    double sum = 0;
    const std::vector<double> all = rates(state);
    for (const double rate : all) sum += rate;
    return sum / static_cast<double>(all.size());
  };
  for (size_t c = 0; c < classes; ++c) kind.part_names.push_back(fmt::format("class_{}", c));
  return kind;
}

Metric rates_of_classes(const char* metric, const Tensor& labels, const Tensor& predictions,
                        int64_t num_classes, const Tensor& weights, const char* undefined,
                        internal::AddPair add) {
  const auto kind = internal::known_kind(internal::name_with_classes(metric, num_classes), [&] {
    return kind_of_rates(static_cast<size_t>(num_classes), undefined);
  });
  return internal::of_class_pairs(metric, kind, labels, predictions, num_classes, weights, add);
}

}  // namespace

Metric confusion_matrix(const Tensor& labels, const Tensor& predictions, int64_t num_classes,
                        const Tensor& weights) {
  constexpr const char* kName = "confusion_matrix";
  const auto kind = internal::known_kind(internal::name_with_classes(kName, num_classes), [&] {
    const auto n = static_cast<size_t>(num_classes);
    MetricKind made;
    made.empty.resize(n * n);
    made.merge = add_metric_states;
    made.result = [n](Numbers state) { return part_on_diagonal(state, n); };
    made.parts = [](Numbers state) { return std::vector<double>(state.begin(), state.end()); };
    for (size_t i = 0; i < n * n; ++i)
      made.part_names.push_back(fmt::format("label_{}/prediction_{}", i / n, i % n));
    return made;
  });
  return internal::of_class_pairs(kName, kind, labels, predictions, num_classes, weights,
                                  internal::add_to_matrix);
}

Metric per_class_precision(const Tensor& labels, const Tensor& predictions, int64_t num_classes,
                           const Tensor& weights) {
  return rates_of_classes(
      "per_class_precision", labels, predictions, num_classes, weights, "nothing is predicted as",
      [](double* state, int64_t classes, int64_t label, int64_t prediction, double weight) {
        if (label == prediction) state[label] += weight;
        state[classes + prediction] += weight;
      });
}

Metric per_class_recall(const Tensor& labels, const Tensor& predictions, int64_t num_classes,
                        const Tensor& weights) {
  return rates_of_classes(
      "per_class_recall", labels, predictions, num_classes, weights, "there are no labels of",
      [](double* state, int64_t classes, int64_t label, int64_t prediction, double weight) {
        if (label == prediction) state[label] += weight;
        state[classes + label] += weight;
      });
}

}  // namespace muster::inline v0_1::metrics
