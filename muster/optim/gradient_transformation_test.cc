// Wrappers of a ready-made optimizer: clipping, decay, multipliers, freezing.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <memory>

#include "muster/base/error_of.h"
#include "muster/optim/adjustable_learning_rate.h"
#include "muster/optim/internal/test_errors.h"
#include "muster/optim/optimizer.h"
#include "muster/optim/train_op.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1::optim {
namespace {

using testing::message_of;

VariableSpec called(const std::string& name) {
  VariableSpec spec;
  spec.name = name;
  return spec;
}

// One update of weights that are 1, with gradients of 1.
double weight_after_update(const Optimizer& optimizer, const std::string& name) {
  const VariableSpec spec = called(name);
  Segment segment{torch::ones({1}, at::kDouble), torch::ones({1}, at::kDouble), {}};
  segment.variable = &spec;
  for (const SlotSpec& slot : optimizer.rule().slots())
    segment.slots.push_back(torch::full({1}, slot.initial_value, at::kDouble));
  optimizer.rule().update(segment, 0);
  return segment.weights.item<double>();
}

TEST(AdjustableLearningRate, CountsTheFactorOfTheMoment) {
  const auto factor = std::make_shared<std::atomic<double>>(1.0);
  const Optimizer optimizer = adjustable_learning_rate(sgd({.learning_rate = 0.5}), factor);
  EXPECT_EQ(weight_after_update(optimizer, "w"), 0.5);
  factor->store(0.5);
  EXPECT_EQ(weight_after_update(optimizer, "w"), 0.75);
  factor->store(0);
  EXPECT_EQ(weight_after_update(optimizer, "w"), 1);
  EXPECT_EQ(error_of([] { adjustable_learning_rate(sgd(), nullptr); }).kind(),
            ErrorKind::kInvalidArgument);
}

TEST(ClipByValue, BoundsEachNumberOfTheScaledGradient) {
  const Tensor gradient = torch::tensor({3.0, -1.0, 0.5}, at::kDouble);
  StepGradients step{.optimizer = "SGD", .items = {{.gradient = gradient}}, .scale = 0.5};
  clip_by_value(sgd(), 0.4).transform(step);
  EXPECT_TRUE(
      torch::allclose(gradient * step.scale, torch::tensor({0.4, -0.4, 0.25}, at::kDouble)));
}

TEST(ClipByNorm, ShortensEachVariableByItself) {
  const VariableSpec a = called("a"), b = called("b");
  const Tensor lengthy = torch::tensor({{3.0, 4.0}}, at::kDouble);
  const Tensor small = torch::tensor({0.6, 0.8}, at::kDouble);
  StepGradients step{
      .optimizer = "SGD",
      .items = {{.variable = &a, .gradient = lengthy}, {.variable = &b, .gradient = small}},
      .scale = 0.5};
  const Optimizer optimizer = clip_by_norm(sgd(), 1);
  optimizer.transform(step);
  EXPECT_TRUE(torch::allclose(lengthy * step.scale, torch::tensor({{0.6, 0.8}}, at::kDouble)));
  EXPECT_TRUE(torch::equal(small, torch::tensor({0.6, 0.8}, at::kDouble)));
  lengthy[0][0] = 9;
  small[1] = std::numeric_limits<double>::infinity();
  const Error error = error_of([&] { optimizer.transform(step); });
  EXPECT_EQ(error.kind(), ErrorKind::kNonFinite);
  EXPECT_EQ(error.message(), "the norm of the gradient of b of optimizer SGD is inf");
  EXPECT_EQ(lengthy[0][0].item<double>(), 9) << "nothing was written before";
}

TEST(CentralizeGradients, TakesTheMeanOfEachOutput) {
  const Tensor matrix = torch::tensor({{1.0, 2.0}, {3.0, 6.0}}, at::kDouble);
  const Tensor kernel = torch::arange(12, at::kDouble).view({2, 3, 2});
  const Tensor bias = torch::tensor({5.0, 7.0}, at::kDouble), rows = matrix.clone();
  StepGradients step{.optimizer = "SGD",
                     .items = {{.gradient = matrix},
                               {.gradient = kernel},
                               {.gradient = bias},
                               {.gradient = rows, .rows = torch::tensor({0, 4})}}};
  centralize_gradients(sgd()).transform(step);
  EXPECT_TRUE(torch::equal(matrix, torch::tensor({{-1.0, -2.0}, {1.0, 2.0}}, at::kDouble)));
  EXPECT_TRUE(
      torch::allclose(kernel.sum(std::vector<int64_t>{0, 1}), torch::zeros({2}, at::kDouble)));
  EXPECT_EQ(kernel[0][0][0].item<double>(), -5) << "0 minus the mean of 0, 2, 4, 6, 8, 10";
  EXPECT_TRUE(torch::equal(bias, torch::tensor({5.0, 7.0}, at::kDouble)));
  EXPECT_TRUE(torch::equal(rows, torch::tensor({{1.0, 2.0}, {3.0, 6.0}}, at::kDouble)));
}

TEST(DecoupledWeightDecay, TakesAPartOfTheWeightFirst) {
  const Optimizer optimizer = decoupled_weight_decay(
      sgd({.learning_rate = 0.5}), {.weight_decay = 0.25, .exclude = {"bias$", "^norm/"}});
  EXPECT_EQ(weight_after_update(optimizer, "dense/kernel"), 1 - 0.125 - 0.5);
  EXPECT_EQ(weight_after_update(optimizer, "dense/bias"), 0.5);
  EXPECT_EQ(weight_after_update(optimizer, "norm/gamma"), 0.5);
  EXPECT_TRUE(optimizer.rule().per_variable());
  EXPECT_FALSE(decoupled_weight_decay(sgd(), {.weight_decay = 0.1}).rule().per_variable());
  EXPECT_EQ(optimizer.name(), "SGD");
  EXPECT_EQ(optimizer.describe(),
            "SGD: SGD(learning_rate=0.5, momentum=0, nesterov=false), decoupled_weight_decay(0.25, "
            "exclude=[bias$, ^norm/])");
}

TEST(DecoupledWeightDecay, AroundAdamItIsAdamW) {
  const Optimizer around = decoupled_weight_decay(adam(), {.weight_decay = 0.5});
  EXPECT_EQ(weight_after_update(around, "w"),
            weight_after_update(adamw({.weight_decay = 0.5}), "w"));
  // By the rate of the step.
  const Optimizer warm = decoupled_weight_decay(
      sgd({.learning_rate = linear_warmup({.warmup_steps = 10, .then = 0.5})}),
      {.weight_decay = 0.5});
  EXPECT_EQ(weight_after_update(warm, "w"), 1);
}

TEST(DecoupledWeightDecay, IsToldHowMuch) {
  EXPECT_EQ(message_of([] { decoupled_weight_decay(sgd(), {}); }),
            "decoupled_weight_decay: weight_decay is not given | say it: "
            "decoupled_weight_decay(optimizer, {.weight_decay = 0.004})");
}

TEST(DecoupledWeightDecay, WeightsDecayOnce) {
  const auto decay = [](const Optimizer& optimizer, const std::vector<std::string>& exclude) {
    decoupled_weight_decay(optimizer, {.weight_decay = 0.1, .exclude = exclude});
  };
  const Optimizer biases =
      decoupled_weight_decay(sgd(), {.weight_decay = 0.1, .exclude = {"kernel$"}});
  for (const Optimizer& decays :
       {adamw(), lamb({.weight_decay = 0.1}), lars({.weight_decay = 0.1}), look_ahead(adamw()),
        decoupled_weight_decay(adam(), {.weight_decay = 0.1}), biases}) {
    const std::string message = message_of([&] { decay(decays, {}); });
    EXPECT_EQ(message.find("decoupled_weight_decay: the weights of " + decays.describe() +
                           " decay already | give the optimizer its own weight_decay"),
              0u)
        << message;
  }
  EXPECT_THROW(decay(adamw(), {"bias$"}), Error) << "kernels would decay twice";
  EXPECT_NO_THROW(decay(adamw({.weight_decay = 0}), {}));
  EXPECT_NO_THROW(decay(lamb(), {}));
  EXPECT_NO_THROW(decay(biases, {"bias$"})) << "two groups of variables, each with its own decay";
}

TEST(LearningRateMultipliers, TheFirstThatFitsCounts) {
  const Optimizer optimizer = learning_rate_multipliers(
      sgd({.learning_rate = 0.5}), {{"^encoder/.*bias", 0}, {"^encoder/", 0.5}, {"bias", 2}});
  EXPECT_EQ(weight_after_update(optimizer, "encoder/bias"), 1);
  EXPECT_EQ(weight_after_update(optimizer, "encoder/kernel"), 0.75);
  EXPECT_EQ(weight_after_update(optimizer, "decoder/bias"), 0);
  EXPECT_EQ(weight_after_update(optimizer, "decoder/kernel"), 0.5);
  EXPECT_EQ(optimizer.describe(),
            "SGD: SGD(learning_rate=0.5, momentum=0, nesterov=false), "
            "learning_rate_multipliers([^encoder/.*bias]: 0, [^encoder/]: 0.5, [bias]: 2)");
  // A decay within is multiplied, and the rate of a norm's ratio too.
  const Optimizer decays = learning_rate_multipliers(
      decoupled_weight_decay(sgd({.learning_rate = 0.5}), {.weight_decay = 1}), {{"a", 0.5}});
  EXPECT_EQ(weight_after_update(decays, "a"), 1 - 0.25 - 0.25);
  EXPECT_EQ(weight_after_update(decays, "b"), 1 - 0.5 - 0.5);
}

TEST(Freeze, MinimizeLeavesTheVariablesOut) {
  const Optimizer optimizer = freeze(clip_by_value(adam(), 1), {"^base/", "embedding"});
  const auto trains = [](const TrainOp& op, const std::string& name) {
    return !op.entries[0].filter || op.entries[0].filter(called(name));
  };
  const Tensor loss = torch::zeros({});
  const TrainOp all = optimizer.minimize(loss);
  EXPECT_FALSE(trains(all, "base/kernel"));
  EXPECT_FALSE(trains(all, "top/embedding/table"));
  EXPECT_TRUE(trains(all, "top/base/kernel"));
  const TrainOp some = optimizer.named("other").minimize(
      loss, [](const VariableSpec& spec) { return spec.name.ends_with("kernel"); });
  EXPECT_FALSE(trains(some, "base/kernel"));
  EXPECT_FALSE(trains(some, "top/bias"));
  EXPECT_TRUE(trains(some, "top/kernel"));
  EXPECT_TRUE(trains(adam().minimize(loss), "base/kernel"));
  EXPECT_TRUE(optimizer.describe().ends_with(", clip_by_value(1), freeze([^base/, embedding])"));
}

TEST(Transformations, ComposeAsTheDocumentShows) {
  const auto learning_rate = optim::linear_warmup(
      {.warmup_steps = 500,
       .then = optim::cosine_decay({.initial_learning_rate = 1e-3, .decay_steps = 10000})});
  auto optimizer = optim::adamw(
      {.learning_rate = learning_rate, .exclude_from_weight_decay = {"bias$", "gamma$", "beta$"}});
  optimizer = optim::clip_by_global_norm(optimizer, 1.0);
  optimizer = optim::freeze(optimizer, {"^embedding/"});
  EXPECT_EQ(optimizer.describe(),
            "AdamW: AdamW(learning_rate=LinearWarmup(warmup_steps=500, start_learning_rate=0, "
            "then=CosineDecay(initial_learning_rate=0.001, decay_steps=10000, alpha=0)), "
            "weight_decay=0.004, beta_1=0.9, beta_2=0.999, epsilon=1e-07, "
            "exclude_from_weight_decay=[bias$, gamma$, beta$]), clip_by_global_norm(1), "
            "freeze([^embedding/])");
}

TEST(Transformations, RefusedArgumentsNameThemselves) {
  for (const double bad : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_NE(message_of([&] { clip_by_value(sgd(), bad); }).find("clip_value must be"),
              std::string::npos);
    EXPECT_NE(message_of([&] { clip_by_norm(sgd(), bad); }).find("max_norm must be"),
              std::string::npos);
  }
  EXPECT_EQ(message_of([] { decoupled_weight_decay(sgd(), {.weight_decay = -1}); }),
            "decoupled_weight_decay: weight_decay is -1 | weight_decay must be finite and at least "
            "0");
  EXPECT_EQ(message_of([] {
              learning_rate_multipliers(sgd(), {{"a", -2}});
            }),
            "learning_rate_multipliers: multiplier is -2 | multiplier must be finite and at least "
            "0");
  EXPECT_EQ(message_of([] {
              freeze(sgd(), {"^base/", ""});
            }),
            "freeze: variables has \"\" | an empty expression is in every name; leave it out, or "
            "write \".*\"");
  for (const auto& refused : std::vector<std::function<void()>>{
           [] { freeze(sgd(), {"(a"}); },
           [] { decoupled_weight_decay(sgd(), {.weight_decay = 1, .exclude = {"(a"}}); },
           [] {
             learning_rate_multipliers(sgd(), {{"(a", 1}});
           }}) {
    const std::string text = message_of(refused);
    EXPECT_NE(text.find("has \"(a\" | it must be a regular expression: "), std::string::npos)
        << text;
  }
  EXPECT_EQ(message_of([] { sgd().only({}, ""); }), "SGD: a filter is missing | ");
  EXPECT_EQ(message_of([] {
              sgd().around([](const auto&) { return std::shared_ptr<const UpdateRule>(); });
            }),
            "SGD: the rule around it is missing | ");
}

}  // namespace
}  // namespace muster::inline v0_1::optim
