#include "muster/metrics/precision.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "muster/base/error.h"
#include "muster/metrics/internal/known_kinds.h"
#include "muster/metrics/internal/threshold_counts.h"

namespace muster::inline v0_1::metrics {
namespace {

using internal::ConfusionCounts;

// Reads a number for each threshold.
using ReadCounts = std::vector<double> (*)(const ConfusionCounts& counts);

// The identity of a metric apart from its numbers.
struct Meaning {
  ReadCounts read;
  Better better;
  // The divisor, and the message if it is 0.
  ReadCounts divisor = nullptr;
  const char* undefined = "";
};

std::vector<double> sums(std::vector<double> a, const std::vector<double>& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

// The thresholds, and the place of each given one among the sorted ones.
struct Sorted {
  std::vector<double> thresholds{};
  std::vector<size_t> places{};
};

Sorted sorted(const std::vector<double>& given) {
  std::vector<size_t> order(given.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return given[i]; });
  Sorted all{{}, std::vector<size_t>(given.size())};
  for (size_t place = 0; place < order.size(); ++place) {
    all.thresholds.push_back(given[order[place]]);
    all.places[order[place]] = place;
  }
  return all;
}

MetricKind kind_at(const std::vector<double>& given, const Sorted& known, const Meaning& meaning) {
  MetricKind kind;
  kind.empty.resize(2 * (given.size() + 1));
  kind.merge = add_metric_states;
  kind.better = meaning.better;
  if (meaning.divisor != nullptr) {
    kind.caution = [given, places = known.places, meaning](std::span<const double> state) {
      const std::vector<double> by_place = meaning.divisor(internal::confusion_counts(state));
      for (size_t i = 0; i < given.size(); ++i) {
        if (by_place[places[i]] != 0) continue;
        return given.size() > 1
                   ? fmt::format("at the threshold {:g} {}", given[i], meaning.undefined)
                   : std::string(meaning.undefined);
      }
      return std::string();
    };
  }
  const auto all = [places = known.places, read = meaning.read](std::span<const double> state) {
    const std::vector<double> by_place = read(internal::confusion_counts(state));
    std::vector<double> results;
    for (const size_t place : places) results.push_back(by_place[place]);
    return results;
  };
  kind.result = [all](std::span<const double> state) { return all(state)[0]; };
  if (given.size() > 1) {
    for (const double threshold : given)
      kind.part_names.push_back(fmt::format("threshold_{:g}", threshold));
    kind.parts = all;
  }
  return kind;
}

Metric counted(const char* metric, const Tensor& labels, const Tensor& predictions,
               const Tensor& weights, const PrecisionOptions& options, const Meaning& meaning) {
  for (const double threshold : options.thresholds)
    internal::check_fraction(metric, "a threshold", threshold);
  // Every probability is above -1, and a prediction that is not among the k largest is above
  // nothing.
  const std::vector<double> given = !options.thresholds.empty() ? options.thresholds
                                    : options.top_k             ? std::vector<double>{-1}
                                                                : std::vector<double>{0.5};
  Sorted known = sorted(given);
  std::string name = fmt::format("{}(thresholds=[{}]", metric, fmt::join(given, ", "));
  if (options.top_k) name += fmt::format(", top_k={}", *options.top_k);
  if (options.class_id) name += fmt::format(", class_id={}", *options.class_id);
  const auto kind =
      internal::known_kind(name + ")", [&] { return kind_at(given, known, meaning); });
  return internal::count_above(metric, kind, internal::with_outputs(metric, labels, predictions),
                               weights,
                               {.thresholds = std::move(known.thresholds),
                                .class_id = options.class_id,
                                .top_k = options.top_k});
}

}  // namespace

Metric true_positives(const Tensor& labels, const Tensor& predictions, const Tensor& weights,
                      const CountOptions& options) {
  return counted(
      "true_positives", labels, predictions, weights, {.thresholds = options.thresholds},
      {[](const ConfusionCounts& counts) { return counts.true_positives; }, Better::kHigher});
}

Metric false_positives(const Tensor& labels, const Tensor& predictions, const Tensor& weights,
                       const CountOptions& options) {
  return counted(
      "false_positives", labels, predictions, weights, {.thresholds = options.thresholds},
      {[](const ConfusionCounts& counts) { return counts.false_positives; }, Better::kLower});
}

Metric true_negatives(const Tensor& labels, const Tensor& predictions, const Tensor& weights,
                      const CountOptions& options) {
  return counted(
      "true_negatives", labels, predictions, weights, {.thresholds = options.thresholds},
      {[](const ConfusionCounts& counts) { return counts.true_negatives; }, Better::kHigher});
}

Metric false_negatives(const Tensor& labels, const Tensor& predictions, const Tensor& weights,
                       const CountOptions& options) {
  return counted(
      "false_negatives", labels, predictions, weights, {.thresholds = options.thresholds},
      {[](const ConfusionCounts& counts) { return counts.false_negatives; }, Better::kLower});
}

Metric precision(const Tensor& labels, const Tensor& predictions, const Tensor& weights,
                 const PrecisionOptions& options) {
  return counted("precision", labels, predictions, weights, options,
                 {[](const ConfusionCounts& counts) {
                    return internal::ratios(counts.true_positives, counts.false_positives);
                  },
                  Better::kHigher,
                  [](const ConfusionCounts& counts) {
                    return sums(counts.true_positives, counts.false_positives);
                  },
                  "nothing is predicted to be positive: 0 stands for a precision that is not "
                  "defined"});
}

Metric recall(const Tensor& labels, const Tensor& predictions, const Tensor& weights,
              const PrecisionOptions& options) {
  return counted("recall", labels, predictions, weights, options,
                 {[](const ConfusionCounts& counts) {
                    return internal::ratios(counts.true_positives, counts.false_negatives);
                  },
                  Better::kHigher,
                  [](const ConfusionCounts& counts) {
                    return sums(counts.true_positives, counts.false_negatives);
                  },
                  "no label is positive: 0 stands for a recall that is not defined"});
}

}  // namespace muster::inline v0_1::metrics
