#include "muster/optim/update_rule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "muster/optim/internal/optimizer_cases.h"
#include "muster/optim/internal/test_errors.h"
#include "muster/optim/optimizer.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::optim {
namespace {

using testing::message_of;
using testing::optimizer_cases;
using testing::OptimizerCase;
using testing::Scalar;

constexpr int64_t kLength = 1003;  // not a multiple of any vector width
constexpr int kSteps = 7;

double start(int64_t i) { return std::sin(0.7 * i); }
double slope(int64_t i, int step) {
  return std::cos(1.3 * i + 0.9 * step) * (i % 5 == 0 ? 0.0 : 1.0);
}

Segment make_segment(const Optimizer& optimizer, torch::Dtype dtype, int64_t begin, int64_t end) {
  std::vector<double> weights;
  for (int64_t i = begin; i < end; ++i) weights.push_back(start(i));
  Segment segment;
  segment.weights = torch::tensor(weights, at::kDouble).to(dtype);
  segment.gradient = torch::empty({end - begin}, dtype);
  for (const SlotSpec& slot : optimizer.rule().slots()) {
    segment.slots.push_back(torch::full({end - begin}, slot.initial_value, dtype));
  }
  return segment;
}

void run(const Optimizer& optimizer, Segment& segment, int64_t begin, double scale) {
  for (int step = 0; step < kSteps; ++step) {
    std::vector<double> gradient;
    for (int64_t i = 0; i < segment.weights.numel(); ++i) {
      gradient.push_back(slope(begin + i, step) / scale);
    }
    segment.gradient.copy_(torch::tensor(gradient, at::kDouble));
    segment.gradient_scale = scale;
    optimizer.rule().update(segment, step);
  }
}

TEST(UpdateRule, FollowsTheScalarFormula) {
  for (const OptimizerCase& one : optimizer_cases()) {
    for (const auto dtype : {at::kFloat, at::kDouble}) {
      for (const double scale : {1.0, 0.25}) {
        Segment segment = make_segment(one.optimizer, dtype, 0, kLength);
        run(one.optimizer, segment, 0, scale);
        const Tensor result = segment.weights.to(at::kDouble);
        const double tolerance = dtype == at::kDouble ? 1e-13 : one.float_tolerance;
        for (int64_t i = 0; i < kLength; ++i) {
          Scalar scalar{start(i)};
          for (int step = 0; step < kSteps; ++step) one.step(scalar, slope(i, step), step);
          ASSERT_NEAR(result.data_ptr<double>()[i], scalar.w, tolerance)
              << one.label << " weight " << i << " scale " << scale;
        }
      }
    }
  }
}

// The cuts of buffers must not matter: the promise of equal bits for any number of buckets depends
// on it.
TEST(UpdateRule, BitsDoNotDependOnWhereSegmentsBegin) {
  for (const OptimizerCase& one : optimizer_cases()) {
    Segment whole = make_segment(one.optimizer, at::kFloat, 0, kLength);
    run(one.optimizer, whole, 0, 0.5);
    for (int64_t cut : {1, 8, 13, 500, 1002}) {
      Segment left = make_segment(one.optimizer, at::kFloat, 0, cut);
      Segment right = make_segment(one.optimizer, at::kFloat, cut, kLength);
      run(one.optimizer, left, 0, 0.5);
      run(one.optimizer, right, cut, 0.5);
      EXPECT_TRUE(torch::equal(torch::cat({left.weights, right.weights}), whole.weights))
          << one.label << " cut at " << cut;
    }
  }
}

TEST(UpdateRule, WorksOnViewsOfAFlatBufferAndTouchesNothingElse) {
  const Optimizer rule = adam();
  const Tensor flat = torch::arange(100, at::kFloat);
  Segment segment{
      flat.slice(0, 10, 40), torch::ones({30}), {torch::zeros({30}), torch::zeros({30})}};
  rule.rule().update(segment, 0);
  for (int64_t i = 0; i < 100; ++i) {
    // Adam's first step is the learning rate, whatever the gradient.
    const float expected =
        i >= 10 && i < 40 ? static_cast<float>(i) - 0.001f : static_cast<float>(i);
    EXPECT_NEAR(flat[i].item<float>(), expected, 1e-5f);
  }
}

// By hand, with Keras's defaults: a = 0.1 + 0.09 = 0.19, then 0.23; w = 1 - 0.001 * 0.3 / (sqrt(a)
// + 1e-7), and so on.
TEST(UpdateRule, AdagradsAccumulatorIsASlotThatBeginsAtATenth) {
  const Optimizer rule = adagrad();
  const auto slots = rule.rule().slots();
  ASSERT_EQ(slots.size(), 1u);
  EXPECT_EQ(slots[0].name, "accumulator");
  EXPECT_EQ(slots[0].initial_value, 0.1);
  Segment segment{torch::ones({2}, at::kDouble),
                  torch::tensor({0.3, 0.0}, at::kDouble),
                  {torch::full({2}, slots[0].initial_value, at::kDouble)}};
  rule.rule().update(segment, 0);
  segment.gradient.copy_(torch::tensor({-0.2, 0.0}, at::kDouble));
  rule.rule().update(segment, 1);
  EXPECT_NEAR(segment.slots[0][0].item<double>(), 0.23, 1e-15);
  EXPECT_NEAR(segment.weights[0].item<double>(),
              1 - 0.001 * 0.3 / (0.43588989435406735522 + 1e-7) +
                  0.001 * 0.2 / (0.47958315233127195416 + 1e-7),
              1e-15);
  // A weight without a gradient stays unchanged, and its slot too.
  EXPECT_EQ(segment.weights[1].item<double>(), 1);
  EXPECT_EQ(segment.slots[0][1].item<double>(), 0.1);
}

TEST(UpdateRule, AutogradNoticesTheWrite) {
  Tensor weights = torch::ones({4}).requires_grad_();
  const Tensor loss = (weights * weights).sum();
  sgd().rule().update({weights, torch::ones({4}), {}}, 0);
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST(UpdateRule, EmptySegmentsAreAllowed) {
  const Segment segment{torch::empty({0}), torch::empty({0}), {}};
  EXPECT_NO_THROW(sgd().rule().update(segment, 0));
}

TEST(UpdateRule, RefusesSegmentsThatDoNotFit) {
  const Tensor four = torch::zeros({4});
  const auto update = [](const Optimizer& optimizer, Segment segment) {
    return message_of([&] { optimizer.rule().update(segment, 0); });
  };
  const std::string text = update(sgd(), {four, torch::zeros({5}), {}});
  EXPECT_NE(text.find("float32[5]"), std::string::npos) << text;
  EXPECT_NE(text.find("float32[4]"), std::string::npos) << text;
  update(sgd(), {four, torch::zeros({4}, at::kDouble), {}});
  update(sgd(), {torch::zeros({2, 2}), torch::zeros({2, 2}), {}});
  update(sgd(), {four, torch::zeros({8}).slice(0, 0, 8, 2), {}});
  update(sgd(), {four, Tensor(), {}});
  update(sgd(), {Tensor(), four, {}});
  update(sgd({.momentum = 0.5}), {four, four.clone(), {}});
  update(adam(), {four, four.clone(), {four.clone()}});
  update(adagrad(), {four, four.clone(), {}});
  update(adam(), {four, four.clone(), {four.clone(), torch::zeros({3})}});
  const Tensor whole = torch::zeros({4}, at::kLong);
  EXPECT_NE(update(sgd(), {whole, whole, {}}).find("int64"), std::string::npos);
}

}  // namespace
}  // namespace muster::inline v0_1::optim
