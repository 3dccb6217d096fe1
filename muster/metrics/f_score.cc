#include "muster/metrics/f_score.h"

#include <fmt/format.h>

#include <cmath>

#include "muster/metrics/internal/arguments.h"
#include "muster/metrics/internal/known_kinds.h"
#include "muster/metrics/internal/threshold_counts.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::metrics {
namespace {

using internal::ratio;

// A prediction that is not further from 0 is not positive without a threshold, as in Keras.
constexpr double kNoPrediction = 1e-9;

const char* name_of(Average average) {
  switch (average) {
    case Average::kNone:
      return "none";
    case Average::kMicro:
      return "micro";
    case Average::kMacro:
      return "macro";
    case Average::kWeighted:
      return "weighted";
  }
  return "";
}

// The state is these three for each class: [3][classes].
struct ClassCounts {
  double tp = 0;
  double fp = 0;
  double fn = 0;
};

ClassCounts class_counts(std::span<const double> state, size_t c) {
  const size_t classes = state.size() / 3;
  return {state[c], state[classes + c], state[2 * classes + c]};
}

double score(const ClassCounts& counts, double beta) {
  const double precision = ratio(counts.tp, counts.tp + counts.fp);
  const double recall = ratio(counts.tp, counts.tp + counts.fn);
  return (1 + beta * beta) * ratio(precision * recall, beta * beta * precision + recall);
}

double average_score(std::span<const double> state, Average average, double beta) {
  const size_t classes = state.size() / 3;
  ClassCounts all;
  double sum = 0, weighted = 0;
  for (size_t c = 0; c < classes; ++c) {
    const ClassCounts counts = class_counts(state, c);
    all = {all.tp + counts.tp, all.fp + counts.fp, all.fn + counts.fn};
    sum += score(counts, beta);
    weighted += score(counts, beta) * (counts.tp + counts.fn);
  }
  if (average == Average::kMicro) return score(all, beta);
  if (average == Average::kWeighted) return ratio(weighted, all.tp + all.fn);
  return sum / static_cast<double>(classes);
}

MetricKind kind_of_scores(size_t classes, Average average, double beta) {
  MetricKind kind;
  kind.empty.resize(3 * classes);
  kind.merge = add_metric_states;
  kind.better = Better::kHigher;
  kind.caution = [classes, average](std::span<const double> state) {
    std::vector<size_t> missing;
    for (size_t c = 0; c < classes; ++c) {
      const ClassCounts counts = class_counts(state, c);
      if (counts.tp + counts.fp + counts.fn == 0) missing.push_back(c);
    }
    const bool each = average == Average::kNone || average == Average::kMacro;
    if (missing.empty() || (!each && missing.size() < classes)) return std::string();
    return fmt::format(
        "there are neither labels nor predictions of {}: the score is undefined, shown as 0{}",
        internal::which_classes(missing), each && classes > 1 ? ", in the mean too" : "");
  };
  kind.result = [average, beta](std::span<const double> state) {
    return average_score(state, average, beta);
  };
  if (average != Average::kNone) return kind;
  for (size_t c = 0; c < classes; ++c) kind.part_names.push_back(fmt::format("class_{}", c));
  kind.parts = [classes, beta](std::span<const double> state) {
    std::vector<double> scores;
    for (size_t c = 0; c < classes; ++c) scores.push_back(score(class_counts(state, c), beta));
    return scores;
  };
  return kind;
}

// Returns 1 and 0 for predictions that are positive and that are not.
Tensor positives(const Tensor& given, std::optional<double> threshold) {
  const Tensor predictions = given.to(internal::compute_dtype(given));
  if (threshold) return predictions.gt(*threshold).to(at::kDouble);
  return predictions.ge(predictions.amax(-1, /*keepdim=*/true))
      .logical_and(predictions.abs().gt(kNoPrediction))
      .to(at::kDouble);
}

Metric measured_score(const char* metric, const Tensor& labels, const Tensor& predictions,
                      const Tensor& weights, const FBetaScoreOptions& options) {
  if (!(options.beta > 0 && std::isfinite(options.beta)))
    internal::refuse(metric, "beta", fmt::format("{}", options.beta), "finite and above 0");
  if (options.threshold && !(*options.threshold > 0 && *options.threshold <= 1))
    internal::refuse(metric, "threshold", fmt::format("{}", *options.threshold), "in (0, 1]");
  const internal::Labeled given = internal::with_outputs(metric, labels, predictions);
  const Tensor fit = internal::fit_weights(metric, weights, given.labels.sizes().vec(),
                                           "predictions", predictions);
  const int64_t classes = given.predictions.size(-1);
  const auto kind = internal::known_kind(
      fmt::format("{}(average={}, beta={}, classes={})", metric, name_of(options.average),
                  options.beta, classes),
      [&] { return kind_of_scores(static_cast<size_t>(classes), options.average, options.beta); });
  return Metric::deferred(kind, [metric, given, fit, threshold = options.threshold, classes] {
    internal::check_unit_range(metric, "labels", given.labels);
    internal::check_weights(metric, fit);
    const Tensor truth = given.labels.to(at::kDouble);
    const Tensor said = positives(given.predictions, threshold);
    const auto summed = [&](const Tensor& counts) {
      const Tensor all =
          fit.defined() ? counts * internal::weights_of_each(fit, counts.sizes().vec()) : counts;
      return all.reshape({-1, classes}).sum(0);
    };
    const Tensor state =
        at::cat({summed(said * truth), summed(said * (1 - truth)), summed((1 - said) * truth)})
            .to(at::kCPU, at::kDouble)
            .contiguous();
    const double* begin = state.data_ptr<double>();
    return std::vector<double>(begin, begin + state.numel());
  });
}

}  // namespace

Metric f_beta_score(const Tensor& labels, const Tensor& predictions, const Tensor& weights,
                    const FBetaScoreOptions& options) {
  return measured_score("f_beta_score", labels, predictions, weights, options);
}

Metric f1_score(const Tensor& labels, const Tensor& predictions, const Tensor& weights,
                const F1ScoreOptions& options) {
  return measured_score("f1_score", labels, predictions, weights,
                        {.average = options.average, .threshold = options.threshold});
}

}  // namespace muster::inline v0_1::metrics
