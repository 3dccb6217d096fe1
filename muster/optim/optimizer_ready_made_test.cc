// Properties of the ready-made optimizers one by one: defaults, known cases, refused options.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "muster/optim/internal/test_errors.h"
#include "muster/optim/optimizer.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1::optim {
namespace {

using testing::message_of;

// Name, slots with their initial values, and all defaults, which are Keras's.
TEST(ReadyMade, NamesSlotsAndDefaults) {
  struct Row {
    Optimizer optimizer;
    std::string described, slots;
  };
  const std::string moments = "m=0 v=0 ";
  const std::vector<Row> rows{
      {adam({.amsgrad = true}),
       "Adam: Adam(learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-07, amsgrad=true)",
       moments + "vhat=0 "},
      {adamw(),
       "AdamW: AdamW(learning_rate=0.001, weight_decay=0.004, beta_1=0.9, beta_2=0.999, "
       "epsilon=1e-07)",
       moments},
      {adamw({.exclude_from_weight_decay = {"bias", "^a/"}, .convention = Convention::kPyTorch}),
       "AdamW: AdamW(learning_rate=0.001, weight_decay=0.004, beta_1=0.9, beta_2=0.999, "
       "epsilon=1e-07, exclude_from_weight_decay=[bias, ^a/], convention=PyTorch)",
       moments},
      {adamax(), "Adamax: Adamax(learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-07)",
       moments},
      {nadam(),
       "Nadam: Nadam(learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-07, "
       "schedule_decay=0.004)",
       moments},
      {rmsprop(),
       "RMSprop: RMSprop(learning_rate=0.001, rho=0.9, momentum=0, epsilon=1e-07, centered=false)",
       "rms=0 "},
      {rmsprop({.momentum = 0.5, .centered = true}),
       "RMSprop: RMSprop(learning_rate=0.001, rho=0.9, momentum=0.5, epsilon=1e-07, "
       "centered=true)",
       "rms=0 momentum=0 mg=0 "},
      {adadelta(), "Adadelta: Adadelta(learning_rate=0.001, rho=0.95, epsilon=1e-07)",
       "accum_grad=0 accum_var=0 "},
      {ftrl(),
       "Ftrl: Ftrl(learning_rate=0.001, learning_rate_power=-0.5, initial_accumulator_value=0.1, "
       "l1_regularization_strength=0, l2_regularization_strength=0, "
       "l2_shrinkage_regularization_strength=0, beta=0)",
       "accumulator=0.1 linear=0 "},
      {lion(), "Lion: Lion(learning_rate=0.0001, beta_1=0.9, beta_2=0.99)", "m=0 "},
      {lamb(),
       "LAMB: LAMB(learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-06, weight_decay=0)",
       moments},
      {lars({.exclude_from_weight_decay = {"bias"}}),
       "LARS: LARS(learning_rate=0.01, momentum=0.9, weight_decay=0, eeta=0.001, epsilon=0, "
       "nesterov=false, exclude_from_weight_decay=[bias], exclude_from_layer_adaptation=[bias])",
       "momentum=0 "}};
  for (const Row& row : rows) {
    EXPECT_EQ(row.optimizer.describe(), row.described);
    std::string slots;
    for (const SlotSpec& slot : row.optimizer.rule().slots())
      slots += fmt::format("{}={} ", slot.name, slot.initial_value);
    EXPECT_EQ(slots, row.slots) << row.described;
  }
}

// One update of each known case, in float32.
TEST(ReadyMade, KnownCases) {
  struct Case {
    const char* id{};
    Optimizer optimizer;
    double weight, gradient, expected;
  };
  const std::vector<Case> cases{
      // A linear regressor, one example: age 17, label 5, so the gradient is 2 * (0 - 5) * x.
      {"derived_sgd_linreg: weights", sgd({.learning_rate = 0.001}), 0, -170, 0.17},
      {"derived_sgd_linreg: bias", sgd({.learning_rate = 0.001}), 0, -10, 0.01},
      // A baseline classifier, one positive example: the gradient is sigmoid(0) - 1.
      {"derived_ftrl_baseline_cls", ftrl({.learning_rate = 0.3}), 0, -0.5, 0.253546276418555}};
  for (const Case& one : cases) {
    Segment segment{torch::full({1}, one.weight), torch::full({1}, one.gradient), {}};
    for (const SlotSpec& slot : one.optimizer.rule().slots())
      segment.slots.push_back(torch::full({1}, slot.initial_value));
    one.optimizer.rule().update(segment, 0);
    EXPECT_NEAR(segment.weights.item<float>(), one.expected, 1e-5 * std::abs(one.expected))
        << one.id;
  }
}

TEST(ReadyMade, RefusedOptionsNameFieldValueAndRange) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<std::pair<std::string, std::function<void()>>> refused{
      {"adamw: weight_decay is -1 | weight_decay must be finite and at least 0",
       [] { adamw({.weight_decay = -1}); }},
      {"adamw: beta_2 is 1 | beta_2 must be at least 0 and below 1", [] { adamw({.beta_2 = 1}); }},
      {"adamax: learning_rate is -1 | learning_rate must be finite and at least 0",
       [] { adamax({.learning_rate = -1}); }},
      {"adamax: epsilon is 0 | epsilon must be finite and above 0", [] { adamax({.epsilon = 0}); }},
      {"nadam: beta_1 is 1 | beta_1 must be at least 0 and below 1", [] { nadam({.beta_1 = 1}); }},
      {"nadam: schedule_decay is -1 | schedule_decay must be finite and at least 0",
       [] { nadam({.schedule_decay = -1}); }},
      {"rmsprop: rho is 1 | rho must be at least 0 and below 1", [] { rmsprop({.rho = 1}); }},
      {"rmsprop: momentum is -0.1 | momentum must be between 0 and 1",
       [] { rmsprop({.momentum = -0.1}); }},
      {"adadelta: rho is nan | rho must be at least 0 and below 1",
       [&] { adadelta({.rho = nan}); }},
      {"adadelta: epsilon is 0 | epsilon must be finite and above 0",
       [] { adadelta({.epsilon = 0}); }},
      {"ftrl: learning_rate is 0 | learning_rate must be finite and above 0",
       [] { ftrl({.learning_rate = 0}); }},
      {"ftrl: learning_rate_power is 0.5 | learning_rate_power must be finite and at most 0",
       [] { ftrl({.learning_rate_power = 0.5}); }},
      {"ftrl: initial_accumulator_value is -1 | initial_accumulator_value must be finite and at "
       "least 0",
       [] { ftrl({.initial_accumulator_value = -1}); }},
      {"ftrl: l1_regularization_strength is -1 | l1_regularization_strength must be finite and at "
       "least 0",
       [] { ftrl({.l1_regularization_strength = -1}); }},
      {"ftrl: l2_regularization_strength is -1 | l2_regularization_strength must be finite and at "
       "least 0",
       [] { ftrl({.l2_regularization_strength = -1}); }},
      {"ftrl: l2_shrinkage_regularization_strength is -1 | l2_shrinkage_regularization_strength "
       "must be finite and at least 0",
       [] { ftrl({.l2_shrinkage_regularization_strength = -1}); }},
      {"ftrl: beta is -1 | beta must be finite and at least 0", [] { ftrl({.beta = -1}); }},
      {"lion: beta_1 is 0 | beta_1 must be above 0 and at most 1", [] { lion({.beta_1 = 0}); }},
      {"lion: beta_2 is 1 | beta_2 must be at least 0 and below 1", [] { lion({.beta_2 = 1}); }},
      {"lamb: weight_decay is -1 | weight_decay must be finite and at least 0",
       [] { lamb({.weight_decay = -1}); }},
      {"lars: eeta is 0 | eeta must be finite and above 0", [] { lars({.eeta = 0}); }},
      {"lars: momentum is 2 | momentum must be between 0 and 1", [] { lars({.momentum = 2}); }}};
  for (const auto& [message, make] : refused) EXPECT_EQ(message_of(make), message);
  const std::string pattern = message_of([] {
    lamb({.exclude_from_layer_adaptation = {{"bias", "[a"}}});
  });
  EXPECT_TRUE(
      pattern.starts_with("lamb: exclude_from_layer_adaptation has \"[a\" | it must be a "
                          "regular expression: "))
      << pattern;
}

TEST(ReadyMade, FtrlRefusesASchedulesRateOfZero) {
  const Optimizer optimizer =
      ftrl({.learning_rate = linear_warmup({.warmup_steps = 2, .then = 0.5})});
  const Segment segment{
      torch::zeros({1}), torch::ones({1}), {torch::full({1}, 0.1), torch::zeros({1})}};
  EXPECT_EQ(message_of([&] { optimizer.rule().update(segment, 0); }),
            "ftrl: the learning rate is 0 at step 0, by LinearWarmup(warmup_steps=2, "
            "start_learning_rate=0, then=0.5) | Ftrl divides by it: let the schedule begin and end "
            "above 0");
  EXPECT_NO_THROW(optimizer.rule().update(segment, 1));
}

// A weight that L1 holds at zero is exactly there, also if nothing was accumulated.
TEST(ReadyMade, FtrlGivesExactZeros) {
  const Optimizer optimizer =
      ftrl({.learning_rate = 0.1, .initial_accumulator_value = 0, .l1_regularization_strength = 1});
  const Segment segment{
      torch::ones({3}), torch::tensor({0.0f, 0.5f, -3.0f}), {torch::zeros({3}), torch::zeros({3})}};
  optimizer.rule().update(segment, 0);
  EXPECT_EQ(segment.weights[0].item<float>(), 0);
  // linear = 0.5 - 0.5 / 0.1 * 1 = -4.5; w = 3.5 / 5
  EXPECT_NEAR(segment.weights[1].item<float>(), 0.7, 1e-6);
  EXPECT_NEAR(segment.weights[2].item<float>(), 32.0 / 30, 1e-6);
}

// The whole variable, in double, from the documented formulas.
struct Vector {
  std::vector<double> w, m, v;
};

double norm(const std::vector<double>& x) {
  double squares = 0;
  for (double value : x) squares += value * value;
  return std::sqrt(squares);
}

constexpr int64_t kElements = 37;

std::vector<double> gradient_at(int step) {
  std::vector<double> g;
  for (int64_t i = 0; i < kElements; ++i) g.push_back(std::cos(1.3 * i + 0.9 * step));
  return g;
}

// Five steps of the optimizer, on a variable of that name; and the same by `reference`.
void expect_follows(
    const Optimizer& optimizer, const std::string& name,
    const std::function<void(Vector&, const std::vector<double>&, int)>& reference) {
  VariableSpec spec;
  spec.name = name;
  Vector expected{{}, std::vector<double>(kElements), std::vector<double>(kElements)};
  for (int64_t i = 0; i < kElements; ++i) expected.w.push_back(std::sin(0.7 * i));
  Segment segment{torch::tensor(expected.w, at::kDouble), {}, {}, 0.25};
  segment.variable = &spec;
  for (const SlotSpec& slot : optimizer.rule().slots())
    segment.slots.push_back(torch::full({kElements}, slot.initial_value, at::kDouble));
  EXPECT_TRUE(optimizer.rule().per_variable());
  for (int step = 0; step < 5; ++step) {
    const std::vector<double> g = gradient_at(step);
    segment.gradient = torch::tensor(g, at::kDouble) / 0.25;
    optimizer.rule().update(segment, step);
    reference(expected, g, step);
  }
  EXPECT_TRUE(
      torch::allclose(segment.weights, torch::tensor(expected.w, at::kDouble), 1e-12, 1e-13))
      << optimizer.describe() << " of " << name;
}

void lamb_reference(Vector& x, const std::vector<double>& g, int step, double decay, bool adapts) {
  std::vector<double> u;
  for (size_t i = 0; i < g.size(); ++i) {
    x.m[i] = 0.8 * x.m[i] + 0.2 * g[i];
    x.v[i] = 0.95 * x.v[i] + 0.05 * g[i] * g[i];
    const double m_hat = x.m[i] / (1 - std::pow(0.8, step + 1));
    const double v_hat = x.v[i] / (1 - std::pow(0.95, step + 1));
    u.push_back(m_hat / (std::sqrt(v_hat) + 1e-3) + decay * x.w[i]);
  }
  const double ratio = adapts ? norm(x.w) / norm(u) : 1;
  for (size_t i = 0; i < g.size(); ++i) x.w[i] -= 0.01 * ratio * u[i];
}

TEST(ReadyMade, LambFollowsItsFormula) {
  LambOptions options{.learning_rate = 0.01,
                      .beta_1 = 0.8,
                      .beta_2 = 0.95,
                      .epsilon = 1e-3,
                      .weight_decay = 0.1,
                      .exclude_from_weight_decay = {"bias$"}};
  const auto reference = [](double decay, bool adapts) {
    return [=](Vector& x, const std::vector<double>& g, int step) {
      lamb_reference(x, g, step, decay, adapts);
    };
  };
  expect_follows(lamb(options), "dense/kernel", reference(0.1, true));
  expect_follows(lamb(options), "dense/bias", reference(0, false));
  options.exclude_from_layer_adaptation.emplace();
  expect_follows(lamb(options), "dense/bias", reference(0, true));
}

void lars_reference(Vector& x, const std::vector<double>& g, double decay, bool adapts,
                    bool nesterov) {
  const double ratio = adapts ? 0.01 * norm(x.w) / (norm(g) + decay * norm(x.w) + 0.5) : 1;
  for (size_t i = 0; i < g.size(); ++i) {
    const double move = 0.2 * ratio * (g[i] + decay * x.w[i]);
    x.m[i] = 0.9 * x.m[i] - move;
    x.w[i] += nesterov ? 0.9 * x.m[i] - move : x.m[i];
  }
}

TEST(ReadyMade, LarsFollowsItsFormula) {
  for (const bool nesterov : {false, true}) {
    const LarsOptions options{.learning_rate = 0.2,
                              .weight_decay = 0.1,
                              .eeta = 0.01,
                              .epsilon = 0.5,
                              .nesterov = nesterov,
                              .exclude_from_weight_decay = {"bias$"}};
    const auto reference = [=](double decay, bool adapts) {
      return [=](Vector& x, const std::vector<double>& g, int) {
        lars_reference(x, g, decay, adapts, nesterov);
      };
    };
    expect_follows(lars(options), "dense/kernel", reference(0.1, true));
    expect_follows(lars(options), "dense/bias", reference(0, false));
  }
}

// A variable of zeros must be able to leave them.
TEST(ReadyMade, TheTrustRatioOfZerosIsOne) {
  for (const Optimizer& optimizer : {lamb({.learning_rate = 0.5}), lars({.learning_rate = 0.5})}) {
    Segment segment{torch::zeros({2}), torch::ones({2}), {}};
    for (size_t s = 0; s < optimizer.rule().slots().size(); ++s)
      segment.slots.push_back(torch::zeros({2}));
    optimizer.rule().update(segment, 0);
    EXPECT_NEAR(segment.weights[0].item<float>(), -0.5, 1e-5) << optimizer.describe();
  }
}

TEST(ReadyMade, AdamWSparesWhatIsExcluded) {
  const Optimizer optimizer = adamw({.weight_decay = 0.5, .exclude_from_weight_decay = {"bias$"}});
  for (const auto& [name, expected] :
       {std::pair("dense/kernel", 1 - 0.0005), {"dense/bias", 1.0}}) {
    VariableSpec spec;
    spec.name = name;
    Segment segment{torch::ones({1}, at::kDouble),
                    torch::zeros({1}, at::kDouble),
                    {torch::zeros({1}, at::kDouble), torch::zeros({1}, at::kDouble)}};
    segment.variable = &spec;
    optimizer.rule().update(segment, 0);
    EXPECT_EQ(segment.weights.item<double>(), expected) << name;
  }
}

// After thousands of steps too, where the product of momenta is made without its factors.
TEST(ReadyMade, NadamsProductHoldsForLongRuns) {
  for (const int64_t iterations : {0, 99, 2999}) {
    const Optimizer optimizer = nadam({.learning_rate = 1, .beta_1 = 0.999, .beta_2 = 0});
    const Segment segment{torch::zeros({1}, at::kDouble),
                          torch::ones({1}, at::kDouble),
                          {torch::full({1}, 2.0, at::kDouble), torch::zeros({1}, at::kDouble)}};
    optimizer.rule().update(segment, iterations);
    const auto mu = [](int64_t t) { return 0.999 * (1 - 0.5 * std::pow(0.96, 0.004 * t)); };
    double product = 1;
    for (int64_t t = 1; t <= iterations + 1; ++t) product *= mu(t);
    const double next = mu(iterations + 2);
    const double expected =
        (1 - mu(iterations + 1)) / (1 - product) + next * (2 - 0.001) / (1 - product * next);
    EXPECT_NEAR(segment.weights.item<double>(), -expected / (1 + 1e-7), 1e-11) << iterations;
  }
}

// An own rule may wrap a ready-made one and slow it down.
TEST(ReadyMade, TheMultiplierOfASegmentScalesTheRate) {
  for (const Optimizer& optimizer : {sgd({.learning_rate = 0.5}), rmsprop({.learning_rate = 0.5}),
                                     adagrad({.learning_rate = 0.5})}) {
    double change[2];
    for (const int slow : {0, 1}) {
      Segment segment{torch::zeros({1}, at::kDouble), torch::ones({1}, at::kDouble), {}};
      for (const SlotSpec& slot : optimizer.rule().slots())
        segment.slots.push_back(torch::full({1}, slot.initial_value, at::kDouble));
      if (slow) segment.learning_rate_multiplier = 0.25;
      optimizer.rule().update(segment, 0);
      change[slow] = segment.weights.item<double>();
    }
    EXPECT_DOUBLE_EQ(change[1], 0.25 * change[0]) << optimizer.describe();
  }
}

}  // namespace
}  // namespace muster::inline v0_1::optim
