#include "muster/canned/internal/sdca_rule.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace muster::inline v0_1::internal {
namespace {

double logistic(double x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}

// The root of z + margin + slope (logistic(z) - start), which grows with z at least as fast as z:
// Newton's steps, and bisection if these would leave the bracket.
double root(double margin, double slope, double start) {
  double low = -margin - slope * (1 - start), high = -margin + slope * start;
  double z = std::clamp(-margin, low, high);
  for (int i = 0; i < 60 && high - low > 1e-14 * (1 + std::abs(z)); ++i) {
    const double p = logistic(z);
    const double value = z + margin + slope * (p - start);
    (value > 0 ? high : low) = z;
    const double next = z - value / (1 + slope * p * (1 - p));
    const double moved = next > low && next < high ? next : (low + high) / 2;
    if (std::abs(moved - z) <= 1e-15 * (1 + std::abs(z))) return moved;
    z = moved;
  }
  return z;
}

// The derivative of the loss, and the constant of its smoothness: by these `adaptive` chooses.
double slope_of_loss(SdcaLoss loss, double label, double wx) {
  return loss == SdcaLoss::kSquared ? wx - label : -label * logistic(-label * wx);
}
double smoothness(SdcaLoss loss) { return loss == SdcaLoss::kSquared ? 1 : 4; }

class Pass {
 public:
  Pass(const SdcaRule& rule, const SdcaExamples& examples, const std::vector<double>& weights,
       std::vector<double>& change, std::vector<double>& duals)
      : rule_(rule), examples_(examples), weights_(weights), change_(change), duals_(duals) {}

  void update(size_t i) {
    double& dual = duals_[examples_.duals[i]];
    const double weight = examples_.weights[i];
    const double best =
        best_dual(rule_, examples_.labels[i], weight, dual, prediction(i), square(i));
    const double step = (best - dual) * weight / rule_.l2;
    dual = best;
    for (size_t e = examples_.offsets[i]; e < examples_.offsets[i + 1]; ++e)
      change_[examples_.coordinates[e]] += examples_.numbers[e] * step;
  }

  // The possible gain of an example, in the terms of its source.
  double residual(size_t i) const {
    const double off =
        duals_[examples_.duals[i]] + slope_of_loss(rule_.loss, examples_.labels[i], prediction(i));
    return std::abs(off) * examples_.weights[i] * std::sqrt(square(i) + smoothness(rule_.loss));
  }

 private:
  // The changes of the other parts in this step, which this part does not see, count as many times
  // as there are parts.
  double prediction(size_t i) const {
    double wx = 0;
    for (size_t e = examples_.offsets[i]; e < examples_.offsets[i + 1]; ++e) {
      const size_t c = examples_.coordinates[e];
      wx += examples_.numbers[e] * shrunk(rule_, weights_[c] + rule_.partitions * change_[c]);
    }
    return wx;
  }

  double square(size_t i) const {
    double sum = 0;
    for (size_t e = examples_.offsets[i]; e < examples_.offsets[i + 1]; ++e)
      sum += examples_.numbers[e] * examples_.numbers[e];
    return sum / rule_.l2;
  }

  const SdcaRule& rule_;
  const SdcaExamples& examples_;
  const std::vector<double>& weights_;
  std::vector<double>& change_;
  std::vector<double>& duals_;
};

}  // namespace

double shrunk(const SdcaRule& rule, double weight) {
  const double by = rule.l1 / rule.l2;
  return std::copysign(std::max(std::abs(weight) - by, 0.0), weight);
}

double best_dual(const SdcaRule& rule, double label, double weight, double dual, double wx,
                 double square) {
  const double slope = rule.partitions * square * weight;
  if (rule.loss == SdcaLoss::kSquared) return dual + (label - dual - wx) / (1 + slope);
  return label * logistic(root(label * wx, slope, dual * label));
}

void sdca_pass(const SdcaRule& rule, const SdcaExamples& examples,
               const std::vector<double>& weights, std::vector<double>& change,
               std::vector<double>& duals, Random* drawn) {
  Pass pass(rule, examples, weights, change, duals);
  if (drawn == nullptr) {
    for (size_t i = 0; i < examples.size(); ++i) pass.update(i);
    return;
  }
  std::vector<double> sums(examples.size());
  for (size_t i = 0; i < examples.size(); ++i)
    sums[i] = pass.residual(i) + (i > 0 ? sums[i - 1] : 0);
  if (sums.empty() || !(sums.back() > 0)) return;
  for (size_t n = 0; n < examples.size(); ++n) {
    const auto found = std::upper_bound(sums.begin(), sums.end(), drawn->uniform() * sums.back());
    pass.update(std::min<size_t>(found - sums.begin(), sums.size() - 1));
  }
}

}  // namespace muster::inline v0_1::internal
