#include "muster/metrics/r2_score.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "muster/metrics/internal/arguments.h"
#include "muster/metrics/internal/known_kinds.h"
#include "muster/metrics/internal/threshold_counts.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::metrics {
namespace {

using internal::ratio;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The state is the number of labels, then these for each output: the weighted sums of 1, of the
// labels, of their squares and of the squared errors, and the least and the largest label of a
// weight other than 0.
struct OutputSums {
  double weights;
  double labels;
  double squares;
  double errors;
  double least;
  double largest;

  // The weighted sum of (label - mean label)^2. Where all labels are equal, rounding must not leave
  // something to divide by.
  double variation() const {
    return least < largest ? squares - labels * ratio(labels, weights) : 0;
  }
  double score() const {
    const double all = variation();
    return all == 0 ? 0 : 1 - errors / all;
  }
};

constexpr size_t kSums = 6;

OutputSums output_sums(std::span<const double> state, size_t output) {
  const auto sums = state.subspan(1 + kSums * output, kSums);
  return {sums[0], sums[1], sums[2], sums[3], sums[4], sums[5]};
}

void merge_sums(std::span<double> state, std::span<const double> other) {
  state[0] += other[0];
  for (size_t begin = 1; begin < state.size(); begin += kSums) {
    for (size_t i = begin; i < begin + 4; ++i) state[i] += other[i];
    state[begin + 4] = std::min(state[begin + 4], other[begin + 4]);
    state[begin + 5] = std::max(state[begin + 5], other[begin + 5]);
  }
}

double adjusted(double score, double samples, double regressors) {
  if (regressors == 0 || samples - regressors - 1 <= 0) return score;
  return 1 - (1 - score) * (samples - 1) / (samples - regressors - 1);
}

double aggregated(std::span<const double> state, ClassAggregation aggregation) {
  const size_t outputs = state.size() / kSums;
  double sum = 0, weighted = 0, variation = 0;
  for (size_t output = 0; output < outputs; ++output) {
    const OutputSums sums = output_sums(state, output);
    sum += sums.score();
    weighted += sums.score() * sums.variation();
    variation += sums.variation();
  }
  if (aggregation == ClassAggregation::kVarianceWeighted) return ratio(weighted, variation);
  return sum / static_cast<double>(outputs);
}

MetricKind kind_of_r2(size_t outputs, const R2ScoreOptions& options) {
  MetricKind kind;
  kind.empty = {0};
  for (size_t i = 0; i < outputs; ++i)
    kind.empty.insert(kind.empty.end(), {0, 0, 0, 0, kInfinity, -kInfinity});
  kind.merge = merge_sums;
  kind.better = Better::kHigher;
  kind.caution = [outputs](std::span<const double> state) {
    for (size_t i = 0; i < outputs; ++i) {
      if (output_sums(state, i).variation() != 0) continue;
      return fmt::format(
          "all labels{} are equal, or there are none: the score is undefined, shown as 0",
          outputs > 1 ? fmt::format(" of output {}", i) : "");
    }
    return std::string();
  };
  const auto regressors = static_cast<double>(options.num_regressors);
  kind.result = [aggregation = options.class_aggregation,
                 regressors](std::span<const double> state) {
    return adjusted(aggregated(state, aggregation), state[0], regressors);
  };
  if (options.class_aggregation != ClassAggregation::kNone) return kind;
  for (size_t i = 0; i < outputs; ++i) kind.part_names.push_back(fmt::format("output_{}", i));
  kind.parts = [outputs, regressors](std::span<const double> state) {
    std::vector<double> scores;
    for (size_t i = 0; i < outputs; ++i)
      scores.push_back(adjusted(output_sums(state, i).score(), state[0], regressors));
    return scores;
  };
  return kind;
}

const char* name_of(ClassAggregation aggregation) {
  if (aggregation == ClassAggregation::kNone) return "none";
  return aggregation == ClassAggregation::kUniform ? "uniform" : "variance_weighted";
}

}  // namespace

Metric r2_score(const Tensor& labels, const Tensor& predictions, const Tensor& weights,
                const R2ScoreOptions& options) {
  constexpr const char* kName = "r2_score";
  internal::check_at_least(kName, "num_regressors", options.num_regressors, 0);
  const internal::Labeled given = internal::with_outputs(kName, labels, predictions);
  const Tensor fit =
      internal::fit_weights(kName, weights, given.labels.sizes().vec(), "predictions", predictions);
  const int64_t outputs = given.predictions.size(-1);
  const auto kind = internal::known_kind(
      fmt::format("{}(class_aggregation={}, num_regressors={}, outputs={})", kName,
                  name_of(options.class_aggregation), options.num_regressors, outputs),
      [&] { return kind_of_r2(static_cast<size_t>(outputs), options); });
  return Metric::deferred(kind, [given, fit, outputs] {
    internal::check_weights(kName, fit);
    const Tensor truth = given.labels.to(at::kDouble).reshape({-1, outputs});
    const Tensor error = given.predictions.to(at::kDouble).reshape({-1, outputs}) - truth;
    const Tensor each = fit.defined() ? internal::weights_of_each(fit, given.labels.sizes().vec())
                                            .to(at::kDouble)
                                            .reshape({-1, outputs})
                                      : at::ones_like(truth);
    // One more row, so that there is a least and a largest of no labels too.
    const auto counted = [&](double otherwise) {
      const Tensor none = at::full({1, outputs}, otherwise, truth.options());
      return at::cat({truth.masked_fill(each.eq(0), otherwise), none});
    };
    const Tensor sums = at::stack({each.sum(0), (each * truth).sum(0),
                                   (each * truth.square()).sum(0), (each * error.square()).sum(0),
                                   counted(kInfinity).amin(0), counted(-kInfinity).amax(0)},
                                  /*dim=*/1)
                            .to(at::kCPU)
                            .contiguous();
    std::vector<double> state{static_cast<double>(truth.numel())};
    state.insert(state.end(), sums.data_ptr<double>(), sums.data_ptr<double>() + sums.numel());
    return state;
  });
}

}  // namespace muster::inline v0_1::metrics
