// Counts examples above thresholds: one pass over the predictions finds for each how many
// thresholds it is above, and adds its weight to a histogram. The true and false counts at each
// threshold are sums over this histogram, computed when a result is read. Thread safety: values and
// pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "muster/metrics/internal/arguments.h"
#include "muster/metrics/metric.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::metrics::internal {

// The parameters of the counting.
struct ThresholdCounting {
  std::vector<double> thresholds{};   // ascending
  std::optional<int64_t> class_id{};  // this one of the last axis alone
  std::optional<int64_t> top_k{};  // the largest k of the last axis alone are above any threshold
  bool by_label = false;           // a histogram for each place of the last axis
  std::vector<double> label_weights{};  // of the places of the last axis; empty for 1
  // Whether the sigmoid of the predictions is compared; unset if a metric has no such option.
  std::optional<bool> from_logits = {};
  // Whether each histogram is followed by the least and the largest prediction of each bucket.
  bool ranges = false;
};

// Returns the size of a state: for each histogram the numbers of positive labels, then those of
// negative ones, by how many thresholds a prediction is above; with `ranges` as many numbers again.
int64_t size_of_counts(const ThresholdCounting& counting, int64_t outputs);
// Returns the empty state of a histogram with ranges, of this many thresholds; and merges one into
// another.
std::vector<double> empty_ranges(size_t thresholds, size_t histograms);
void merge_ranges(std::span<double> state, std::span<const double> other, size_t thresholds);
// For one histogram with its ranges: the part of the pairs of a positive and a negative example, by
// weight, whose predictions differ and which no threshold separates; 0 if there are no pairs.
double undecided_pairs(std::span<const double> histogram);

// Makes a metric of `kind`, whose state these histograms are, from labels and predictions of one
// shape. Labels are in [0, 1], and each that is not 0 is positive; predictions are in [0, 1] unless
// they are logits; other ones are refused when the state is computed. Throws InvalidArgument for
// weights that do not fit, and for a class_id and a top_k outside of the last axis. Weights are as
// in fit_weights(), for each prediction.
Metric count_above(const char* metric, std::shared_ptr<const MetricKind> kind, const Labeled& given,
                   const Tensor& weights, ThresholdCounting counting);

// Confusion at each threshold, in the order of the thresholds.
struct ConfusionCounts {
  std::vector<double> true_positives{};
  std::vector<double> false_positives{};
  std::vector<double> true_negatives{};
  std::vector<double> false_negatives{};
};

// Reads one histogram of a state: 2 (thresholds + 1) numbers.
ConfusionCounts confusion_counts(std::span<const double> histogram);

// a / b, and 0 if b is 0.
double ratio(double a, double b);
// Does this for each pair of numbers.
std::vector<double> ratios(const std::vector<double>& a, const std::vector<double>& rest);

// Returns `count` thresholds from 0 to 1 at equal distances, with these in place of the first and
// the last.
std::vector<double> even_thresholds(int64_t count, double first, double last);

}  // namespace muster::inline v0_1::metrics::internal
