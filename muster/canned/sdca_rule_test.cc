// Dual coordinate ascent on plain numbers: the duality gap, and the best dual variable.
#include "muster/canned/internal/sdca_rule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace muster::inline v0_1 {
namespace {

using internal::SdcaExamples;
using internal::SdcaLoss;
using internal::SdcaRule;

// Examples of four coordinates, with weights; the labels are noisy.
SdcaExamples small_problem(SdcaLoss loss, size_t count) {
  SdcaExamples examples;
  for (size_t i = 0; i < count; ++i) {
    const auto x = static_cast<double>(i);
    double label = std::sin(x) + 0.5 * std::cos(3 * x);
    for (size_t c = 0; c < 4; ++c) {
      if ((i + c) % 3 == 0) continue;
      examples.coordinates.push_back(c);
      examples.numbers.push_back(std::sin(x * (static_cast<double>(c) + 1)) + 0.3);
      label += examples.numbers.back() * (static_cast<double>(c) - 1);
    }
    examples.offsets.push_back(examples.coordinates.size());
    if (loss == SdcaLoss::kLogistic) label = label > 0 ? 1 : -1;
    examples.labels.push_back(label);
    examples.weights.push_back(i % 4 == 0 ? 2.5 : 1);
    examples.duals.push_back(i);
  }
  return examples;
}

double prediction(const SdcaRule& rule, const SdcaExamples& examples, size_t i,
                  const std::vector<double>& weights) {
  double wx = 0;
  for (size_t e = examples.offsets[i]; e < examples.offsets[i + 1]; ++e)
    wx += examples.numbers[e] * internal::shrunk(rule, weights[examples.coordinates[e]]);
  return wx;
}

double entropy(double p) { return p > 0 ? p * std::log(p) : 0; }

// Primal minus dual value, where w follows from the duals: sum of losses and conjugates, and l2
// |w|^2 + l1 |w|_1, w after it was shrunk, for both problems have that half.
double duality_gap(const SdcaRule& rule, const SdcaExamples& examples,
                   const std::vector<double>& duals, const std::vector<double>& weights) {
  double gap = 0;
  for (size_t i = 0; i < examples.size(); ++i) {
    const double wx = prediction(rule, examples, i, weights), y = examples.labels[i];
    const double a = duals[i], s = examples.weights[i];
    if (rule.loss == SdcaLoss::kSquared) {
      gap += s * ((wx - y) * (wx - y) / 2 + a * a / 2 - a * y);
    } else {
      gap += s * (std::log1p(std::exp(-y * wx)) + entropy(a * y) + entropy(1 - a * y));
    }
  }
  for (const double weight : weights) {
    const double w = internal::shrunk(rule, weight);
    gap += rule.l2 * w * w + rule.l1 * std::abs(w);
  }
  return gap;
}

struct RuleCase {
  const char* name{};
  SdcaRule rule;
  bool drawn = false;
};
class SdcaRuleTest : public ::testing::TestWithParam<RuleCase> {};
INSTANTIATE_TEST_SUITE_P(
    Each, SdcaRuleTest,
    ::testing::Values(RuleCase{"squared", {SdcaLoss::kSquared, 0, 0.7}},
                      RuleCase{"logistic", {SdcaLoss::kLogistic, 0, 0.7}},
                      RuleCase{"squared_l1", {SdcaLoss::kSquared, 4, 1}},
                      RuleCase{"logistic_l1", {SdcaLoss::kLogistic, 3, 0.5}},
                      RuleCase{"squared_adaptive", {SdcaLoss::kSquared, 0, 0.7}, true},
                      RuleCase{"logistic_adaptive", {SdcaLoss::kLogistic, 1, 0.7}, true}),
    [](const auto& info) { return info.param.name; });

TEST_P(SdcaRuleTest, TheDualityGapGoesToZero) {
  const SdcaRule& rule = GetParam().rule;
  const SdcaExamples examples = small_problem(rule.loss, 30);
  std::vector<double> duals(30), weights(4);
  // For logistic losses a dual of 0 is the edge of its range, where the conjugate is 0.
  const double begin = duality_gap(rule, examples, duals, weights);
  EXPECT_GT(begin, 1);
  double before = begin;
  Random random(derive_key(3, {1}));
  for (int pass = 0; pass < 400; ++pass) {
    std::vector<double> change(4);
    internal::sdca_pass(rule, examples, weights, change, duals,
                        GetParam().drawn ? &random : nullptr);
    for (size_t c = 0; c < 4; ++c) weights[c] += change[c];
    const double gap = duality_gap(rule, examples, duals, weights);
    EXPECT_GT(gap, -1e-9);
    if (pass % 100 == 99) {
      EXPECT_LT(gap, before * 0.7 + 1e-9) << pass;
      before = gap;
    }
  }
  EXPECT_LT(before, 1e-6 * begin);
}

// The solution of the dual problem of one variable is where its derivative is 0.
TEST(SdcaRuleTest, OneDualVariableIsTheBestOne) {
  for (const double wx : {-40.0, -1.0, 0.0, 3.0, 200.0}) {
    for (const double square : {1e-9, 0.5, 1e4}) {
      for (const double label : {-1.0, 1.0}) {
        const SdcaRule rule{.loss = SdcaLoss::kLogistic, .partitions = 2};
        const double start = 0.3 * label;
        const double best = internal::best_dual(rule, label, 1.5, start, wx, square);
        const double p = best * label, slope = 2 * square * 1.5;
        EXPECT_GE(p, 0);
        EXPECT_LE(p, 1);
        if (p < 1e-12 || p > 1 - 1e-12) continue;  // at an edge, which is beyond digits
        EXPECT_NEAR(std::log(p / (1 - p)) + label * wx + slope * (p - start * label), 0,
                    1e-6 * (1 + std::abs(wx) + slope));
      }
    }
  }
}

// The gap after 300 steps in which `parts` take examples that are all alike, and add up the results
// that each makes of the same weights.
double gap_of_parts(SdcaRule rule, size_t parts) {
  constexpr size_t kOfEach = 4;
  SdcaExamples all;
  std::vector<double> duals(parts * kOfEach), weights(1);
  const auto add = [&](SdcaExamples& examples, size_t i, size_t dual) {
    examples.coordinates.push_back(0);
    examples.numbers.push_back(2);
    examples.offsets.push_back(examples.coordinates.size());
    examples.labels.push_back(rule.loss == SdcaLoss::kSquared || i % 4 != 0 ? 1 : -1);
    examples.weights.push_back(1);
    examples.duals.push_back(dual);
  };
  for (size_t i = 0; i < duals.size(); ++i) add(all, i, i);
  for (int step = 0; step < 300; ++step) {
    std::vector<double> sum(1);
    for (size_t part = 0; part < parts; ++part) {
      SdcaExamples own;
      for (size_t i = 0; i < kOfEach; ++i) add(own, i, part * kOfEach + i);
      std::vector<double> change(1);
      internal::sdca_pass(rule, own, weights, change, duals);
      sum[0] += change[0];
    }
    weights[0] += sum[0];
  }
  return duality_gap(rule, all, duals, weights);
}

// Each part alone would go all the way; their sum goes too far unless each takes the others into
// account.
TEST(SdcaRuleTest, PartsThatKnowOfEachOtherDoNotGoTooFar) {
  for (const SdcaLoss loss : {SdcaLoss::kSquared, SdcaLoss::kLogistic}) {
    EXPECT_LT(gap_of_parts({.loss = loss, .partitions = 1}, 1), 1e-6);
    EXPECT_LT(gap_of_parts({.loss = loss, .partitions = 4}, 4), 1e-6);
  }
  EXPECT_GT(gap_of_parts({.loss = SdcaLoss::kSquared, .partitions = 1}, 4), 1);
}

}  // namespace
}  // namespace muster::inline v0_1
