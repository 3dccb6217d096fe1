#include "muster/optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "muster/base/error.h"
#include "muster/optim/train_op.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1::optim {
namespace {

constexpr int64_t kLength = 1003;  // not a multiple of any vector width
constexpr int kSteps = 7;

double start(int64_t i) { return std::sin(0.7 * i); }
double slope(int64_t i, int step) {
  return std::cos(1.3 * i + 0.9 * step) * (i % 5 == 0 ? 0.0 : 1.0);
}

// The trajectory of one weight, computed in double from the documented formulas alone.
struct Scalar {
  double w, u = 0, m = 0, v = 0, squares = 0;
};
using ScalarStep = std::function<void(Scalar&, double g, int step)>;

struct Case {
  std::string label;
  Optimizer optimizer;
  ScalarStep step;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  all.push_back(
      {"sgd", sgd({.learning_rate = 0.05}), [](Scalar& s, double g, int) { s.w -= 0.05 * g; }});
  all.push_back(
      {"momentum", sgd({.learning_rate = 0.05, .momentum = 0.9}), [](Scalar& s, double g, int) {
         s.u = 0.9 * s.u - 0.05 * g;
         s.w += s.u;
       }});
  all.push_back({"nesterov", sgd({.learning_rate = 0.05, .momentum = 0.9, .nesterov = true}),
                 [](Scalar& s, double g, int) {
                   s.u = 0.9 * s.u - 0.05 * g;
                   s.w += 0.9 * s.u - 0.05 * g;
                 }});
  all.push_back({"nesterov without momentum", sgd({.learning_rate = 0.05, .nesterov = true}),
                 [](Scalar& s, double g, int) { s.w -= 0.05 * g; }});
  // The textbook form, with both moments corrected one by one; Keras's epsilon is then epsilon /
  // sqrt(1 - beta_2^t).
  all.push_back({"adam",
                 adam({.learning_rate = 0.01, .beta_1 = 0.8, .beta_2 = 0.95, .epsilon = 1e-3}),
                 [](Scalar& s, double g, int step) {
                   s.m = 0.8 * s.m + 0.2 * g;
                   s.v = 0.95 * s.v + 0.05 * g * g;
                   const double m_hat = s.m / (1 - std::pow(0.8, step + 1));
                   const double v_hat = s.v / (1 - std::pow(0.95, step + 1));
                   const double epsilon = 1e-3 / std::sqrt(1 - std::pow(0.95, step + 1));
                   s.w -= 0.01 * m_hat / (std::sqrt(v_hat) + epsilon);
                 }});
  // An epsilon and a start that are seen.
  all.push_back(
      {"adagrad",
       adagrad({.learning_rate = 0.05, .initial_accumulator_value = 0.3, .epsilon = 1e-2}),
       [](Scalar& s, double g, int) {
         s.squares += g * g;
         s.w -= 0.05 * g / (std::sqrt(0.3 + s.squares) + 1e-2);
       }});
  return all;
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
  for (const Case& one : cases()) {
    for (const auto dtype : {at::kFloat, at::kDouble}) {
      for (const double scale : {1.0, 0.25}) {
        Segment segment = make_segment(one.optimizer, dtype, 0, kLength);
        run(one.optimizer, segment, 0, scale);
        const Tensor result = segment.weights.to(at::kDouble);
        const double tolerance = dtype == at::kDouble ? 1e-14 : 2e-6;
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

// Where buffers are cut must not matter: the promise of equal bits on any number of buckets stands
// on it.
TEST(UpdateRule, BitsDoNotDependOnWhereSegmentsBegin) {
  for (const Case& one : cases()) {
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
  // A weight without a gradient stays as it is, and its slot too.
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

std::string message_of(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return std::string(error.message()) + " | " + error.hint();
  }
  ADD_FAILURE() << "no error was thrown";
  return {};
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

TEST(Optimizer, NamesAndDefaultsAreThoseOfKeras) {
  EXPECT_EQ(sgd().name(), "SGD");
  EXPECT_EQ(adam().name(), "Adam");
  EXPECT_EQ(sgd().rule().learning_rate(), 0.01);
  EXPECT_EQ(adam().rule().learning_rate(), 0.001);
  EXPECT_EQ(adagrad().name(), "Adagrad");
  EXPECT_EQ(adagrad().rule().learning_rate(), 0.001);
  EXPECT_TRUE(sgd().rule().slots().empty());
  const auto momentum = sgd({.momentum = 0.9}).rule().slots();
  ASSERT_EQ(momentum.size(), 1u);
  EXPECT_EQ(momentum[0].name, "momentum");
  EXPECT_EQ(momentum[0].initial_value, 0.0);
  const auto moments = adam().rule().slots();
  ASSERT_EQ(moments.size(), 2u);
  EXPECT_EQ(moments[0].name, "m");
  EXPECT_EQ(moments[1].name, "v");

  const Optimizer renamed = adam({.name = "fast"}).named("slow");
  EXPECT_EQ(renamed.name(), "slow");
  EXPECT_EQ(renamed.rule().name(), "Adam");
  EXPECT_EQ(sgd({.name = ""}).name(), "SGD");
}

TEST(Optimizer, RefusedOptionsNameFieldValueAndRange) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::string text = message_of([] { sgd({.learning_rate = -0.5}); });
  EXPECT_EQ(text, "sgd: learning_rate is -0.5 | learning_rate must be finite and at least 0");
  EXPECT_EQ(message_of([] { sgd({.momentum = 1.5}); }),
            "sgd: momentum is 1.5 | momentum must be between 0 and 1");
  EXPECT_NE(message_of([&] { sgd({.learning_rate = nan}); }).find("learning_rate"),
            std::string::npos);
  EXPECT_NE(message_of([&] { sgd({.momentum = nan}); }).find("momentum"), std::string::npos);
  EXPECT_NE(message_of([] { adam({.beta_1 = 1.0}); }).find("beta_1 is 1"), std::string::npos);
  EXPECT_NE(message_of([] { adam({.beta_2 = -0.1}); }).find("beta_2 is -0.1"), std::string::npos);
  EXPECT_NE(message_of([] { adam({.epsilon = 0}); }).find("epsilon is 0"), std::string::npos);
  EXPECT_NE(message_of([] { adagrad({.learning_rate = -1}); }).find("adagrad: learning_rate is -1"),
            std::string::npos);
  EXPECT_EQ(message_of([] { adagrad({.initial_accumulator_value = -0.1}); }),
            "adagrad: initial_accumulator_value is -0.1 | initial_accumulator_value must be finite "
            "and at least 0");
  EXPECT_NE(message_of([&] { adagrad({.epsilon = nan}); }).find("epsilon is nan"),
            std::string::npos);
  EXPECT_NO_THROW(sgd({.learning_rate = 0}));
  for (double bad : {0.0, -1.0, nan, std::numeric_limits<double>::infinity()}) {
    EXPECT_NE(message_of([&] { clip_by_global_norm(sgd(), bad); }).find("max_norm must be"),
              std::string::npos);
  }
  EXPECT_EQ(clip_by_global_norm(sgd(), 2.5).named("other").max_global_norm(), 2.5);
}

TEST(TrainOp, MinimizeDescribesAndGroupJoins) {
  const Tensor first = torch::ones({});
  const Tensor second = torch::ones({1});
  TrainOp one = sgd().minimize(first);
  EXPECT_TRUE(one.defined());
  ASSERT_EQ(one.entries.size(), 1u);
  EXPECT_TRUE(one.entries[0].loss.is_same(first));
  EXPECT_EQ(one.entries[0].optimizer.name(), "SGD");
  EXPECT_FALSE(one.entries[0].filter);

  TrainOp two = adam().minimize(second, [](const VariableSpec& spec) { return spec.name == "a"; });
  VariableSpec spec;
  spec.name = "a";
  EXPECT_TRUE(two.entries[0].filter(spec));
  spec.name = "b";
  EXPECT_FALSE(two.entries[0].filter(spec));

  int ran = 0;
  TrainOp extra;
  EXPECT_FALSE(extra.defined());
  extra.updates.push_back([&] { ++ran; });
  EXPECT_TRUE(extra.defined());

  const TrainOp all = group({one, TrainOp{}, two, extra});
  ASSERT_EQ(all.entries.size(), 2u);
  EXPECT_EQ(all.entries[1].optimizer.name(), "Adam");
  ASSERT_EQ(all.updates.size(), 1u);
  all.updates[0]();
  EXPECT_EQ(ran, 1);
  EXPECT_FALSE(group({}).defined());
}

TEST(TrainOp, RefusesALossThatIsNotOneNumber) {
  EXPECT_NE(message_of([] { sgd().minimize(torch::ones({3})); }).find("float32[3]"),
            std::string::npos);
  EXPECT_NE(message_of([] { adam().minimize(Tensor()); }).find("undefined"), std::string::npos);
}

}  // namespace
}  // namespace muster::inline v0_1::optim
