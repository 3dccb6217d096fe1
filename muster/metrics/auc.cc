#include "muster/metrics/auc.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "muster/base/error.h"
#include "muster/metrics/internal/known_kinds.h"
#include "muster/metrics/internal/threshold_counts.h"

namespace muster::inline v0_1::metrics {
namespace {

using internal::ConfusionCounts;
using internal::ratio;

constexpr const char* kAuc = "auc";
constexpr double kOutside = 1e-7;         // how far the first and last threshold lie outside [0, 1]
constexpr double kDividedAtLeast = 1e-6;  // tf.metrics.auc adds this
constexpr double kUndecidedAtMost = 0.1;  // of the pairs, without a warning

const char* name_of(Curve curve) { return curve == Curve::kRoc ? "ROC" : "PR"; }

const char* name_of(SummationMethod method) {
  switch (method) {
    case SummationMethod::kInterpolation:
      return "interpolation";
    case SummationMethod::kMinoring:
      return "minoring";
    case SummationMethod::kMajoring:
      return "majoring";
    case SummationMethod::kTrapezoidal:
      return "trapezoidal";
  }
  return "";
}

// The area under precision over recall, where true positives are interpolated between neighbours
// (keras.metrics.AUC.interpolate_pr_auc).
double interpolated_pr_area(const ConfusionCounts& counts) {
  double area = 0;
  for (size_t t = 0; t + 1 < counts.true_positives.size(); ++t) {
    const double here = counts.true_positives[t] + counts.false_positives[t];
    const double next = counts.true_positives[t + 1] + counts.false_positives[t + 1];
    const double change = counts.true_positives[t] - counts.true_positives[t + 1];
    const double slope = ratio(change, std::max(here - next, 0.0));
    const double intercept = counts.true_positives[t + 1] - slope * next;
    const double growth = here > 0 && next > 0 ? here / next : 1;
    area += ratio(slope * (change + intercept * std::log(growth)),
                  std::max(counts.true_positives[t + 1] + counts.false_negatives[t + 1], 0.0));
  }
  return area;
}

// A point of a curve for each threshold.
struct CurvePoints {
  std::vector<double> x;
  std::vector<double> y;
};

CurvePoints points_of(const ConfusionCounts& counts, Curve curve, double added) {
  CurvePoints points;
  for (size_t t = 0; t < counts.true_positives.size(); ++t) {
    const double tp = counts.true_positives[t], fp = counts.false_positives[t];
    const double recall = ratio(tp + added, tp + counts.false_negatives[t] + added);
    if (curve == Curve::kRoc) {
      points.x.push_back(ratio(fp, fp + counts.true_negatives[t] + added));
      points.y.push_back(recall);
    } else {
      points.x.push_back(recall);
      points.y.push_back(ratio(tp + added, tp + fp + added));
    }
  }
  return points;
}

double area_of(const ConfusionCounts& counts, Curve curve, SummationMethod method) {
  if (curve == Curve::kPr && method == SummationMethod::kInterpolation)
    return interpolated_pr_area(counts);
  const double added = method == SummationMethod::kTrapezoidal ? kDividedAtLeast : 0;
  const CurvePoints points = points_of(counts, curve, added);
  double area = 0;
  for (size_t t = 0; t + 1 < points.x.size(); ++t) {
    const double a = points.y[t], b = points.y[t + 1];
    const double height = method == SummationMethod::kMinoring   ? std::min(a, b)
                          : method == SummationMethod::kMajoring ? std::max(a, b)
                                                                 : (a + b) / 2;
    area += (points.x[t] - points.x[t + 1]) * height;
  }
  return area;
}

double weighted_mean_of(const std::vector<double>& areas, const std::vector<double>& weights) {
  double sum = 0, all = 0;
  for (size_t i = 0; i < areas.size(); ++i) {
    const double weight = weights.empty() ? 1 : weights[i];
    sum += weight * areas[i];
    all += weight;
  }
  return ratio(sum, all);
}

// The caution that belongs to the area of one histogram with its ranges.
std::string caution_of(std::span<const double> histogram, const AucOptions& options) {
  const size_t buckets = histogram.size() / 4;
  double positive = 0, negative = 0;
  for (size_t b = 0; b < buckets; ++b) {
    positive += histogram[b];
    negative += histogram[buckets + b];
  }
  if (positive == 0)
    return "no label is positive: there is no curve, and 0 stands for an area that is not defined";
  if (negative == 0 && options.curve == Curve::kRoc) {
    return "all labels are positive: there is no curve, and 0 stands for an area that is not "
           "defined";
  }
  if (!options.thresholds.empty() || internal::undecided_pairs(histogram) <= kUndecidedAtMost)
    return "";
  return fmt::format(
      "more than a tenth of the pairs of a positive and a negative example lie between two "
      "neighbours of the {} thresholds, which do not tell them apart, as where an event is rare "
      "and "
      "all its probabilities are small: the area may be far from that of the order of the "
      "predictions; give metrics::auc() more thresholds, {{.num_thresholds = {}}}, or thresholds "
      "where the predictions are",
      options.num_thresholds, 100 * options.num_thresholds);
}

// The kind of histograms with ranges, of `size` numbers each.
MetricKind kind_of_areas(const AucOptions& options, size_t size, size_t labels) {
  MetricKind kind;
  const size_t thresholds = size / 4 - 1;
  kind.empty = internal::empty_ranges(thresholds, labels);
  kind.merge = [thresholds](std::span<double> state, std::span<const double> other) {
    internal::merge_ranges(state, other, thresholds);
  };
  kind.better = Better::kHigher;
  kind.caution = [options, size](std::span<const double> state) {
    for (size_t label = 0; label * size < state.size(); ++label) {
      const std::string said = caution_of(state.subspan(label * size, size), options);
      if (said.empty()) continue;
      return options.multi_label ? fmt::format("of label {}, {}", label, said) : said;
    }
    return std::string();
  };
  const auto areas = [curve = options.curve, method = options.summation_method,
                      size](std::span<const double> state) {
    std::vector<double> all;
    for (size_t begin = 0; begin < state.size(); begin += size) {
      const auto counts = internal::confusion_counts(state.subspan(begin, size / 2));
      all.push_back(area_of(counts, curve, method));
    }
    return all;
  };
  kind.result =
      [areas, weights = options.multi_label ? options.label_weights : std::vector<double>()](
          std::span<const double> state) { return weighted_mean_of(areas(state), weights); };
  if (options.multi_label) {
    for (size_t i = 0; i < labels; ++i) kind.part_names.push_back(fmt::format("label_{}", i));
    kind.parts = areas;
  }
  return kind;
}

std::vector<double> thresholds_of(const AucOptions& options) {
  if (options.thresholds.empty()) {
    internal::check_at_least(kAuc, "num_thresholds", options.num_thresholds, 2);
    return internal::even_thresholds(options.num_thresholds, -kOutside, 1 + kOutside);
  }
  for (const double threshold : options.thresholds)
    internal::check_fraction(kAuc, "a threshold", threshold);
  std::vector<double> thresholds = options.thresholds;
  thresholds.insert(thresholds.end(), {-kOutside, 1 + kOutside});
  std::ranges::sort(thresholds);
  return thresholds;
}

std::string name_of(const AucOptions& options, int64_t labels) {
  std::string name = fmt::format("{}(curve={}, summation_method={}", kAuc, name_of(options.curve),
                                 name_of(options.summation_method));
  if (options.thresholds.empty()) {
    name += fmt::format(", num_thresholds={}", options.num_thresholds);
  } else {
    name += fmt::format(", thresholds=[{}]", fmt::join(options.thresholds, ", "));
  }
  if (options.multi_label) name += fmt::format(", labels={}", labels);
  if (!options.label_weights.empty())
    name += fmt::format(", label_weights=[{}]", fmt::join(options.label_weights, ", "));
  return name + ")";
}

}  // namespace

Metric auc(const Tensor& labels, const Tensor& predictions, const Tensor& weights,
           const AucOptions& options) {
  std::vector<double> thresholds = thresholds_of(options);
  for (const double weight : options.label_weights) {
    if (!(weight >= 0 && std::isfinite(weight)))
      internal::refuse(kAuc, "a label weight", fmt::format("{}", weight), "finite and 0 or more");
  }
  const internal::Labeled given = internal::with_outputs(kAuc, labels, predictions);
  const int64_t places = given.predictions.size(-1);
  const size_t size = 4 * (thresholds.size() + 1);
  const auto kind = internal::known_kind(name_of(options, places), [&] {
    return kind_of_areas(options, size, options.multi_label ? static_cast<size_t>(places) : 1);
  });
  return internal::count_above(kAuc, kind, given, weights,
                               {.thresholds = std::move(thresholds),
                                .by_label = options.multi_label,
                                .label_weights = options.label_weights,
                                .from_logits = options.from_logits,
                                .ranges = true});
}

}  // namespace muster::inline v0_1::metrics
