// Moving averages and look-ahead, compared with their formulas for one weight.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "muster/optim/internal/test_errors.h"
#include "muster/optim/optimizer.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1::optim {
namespace {

using testing::message_of;

// Weights [begin, end) of a long run, before the first step.
Segment begun(const Optimizer& optimizer, int64_t begin, int64_t end, DType dtype = kFloat32) {
  Segment segment{torch::arange(begin, end, at::kDouble).mul(0.7).sin().to(dtype),
                  torch::empty({end - begin}, dtype),
                  {}};
  for (const SlotSpec& slot : optimizer.rule().slots()) {
    segment.slots.push_back(slot.begins_as_weights
                                ? segment.weights.clone()
                                : torch::full({end - begin}, slot.initial_value, dtype));
  }
  return segment;
}

void step(const Optimizer& optimizer, Segment& segment, int64_t begin, int64_t iterations) {
  const int64_t length = segment.weights.numel();
  const Tensor slopes = torch::arange(begin, begin + length, at::kDouble).mul(1.3);
  segment.gradient.copy_((slopes + 0.9 * static_cast<double>(iterations)).cos());
  optimizer.rule().update(segment, iterations);
}

struct Averages {
  std::string label{};
  MovingAverageOptions options;
  // The decay of the update, given the number of earlier ones, and whether it ends in the average.
  std::function<double(int64_t)> decay{};
  int64_t overwrite_frequency = 0;
};

TEST(ExponentialMovingAverage, FollowsTheScalarFormula) {
  const auto tenths = [](int64_t) { return 0.9; };
  for (const Averages& one : std::vector<Averages>{
           {"plain", {.decay = 0.9}, tenths},
           {"later", {.decay = 0.9, .start_step = 3}, [](int64_t k) { return k < 3 ? 0 : 0.9; }},
           {"dynamic",
            {.decay = 0.25, .start_step = 1, .dynamic_decay = true},
            [](int64_t k) {
              const double n = static_cast<double>(k - 1);
              return k < 1 ? 0 : std::min(0.25, (1 + n) / (10 + n));
            }},
           {"overwriting", {.decay = 0.9, .overwrite_frequency = 3}, tenths, 3}}) {
    const Optimizer optimizer =
        exponential_moving_average(sgd({.learning_rate = 0.1}), one.options);
    Segment segment = begun(optimizer, 0, 5, kFloat64);
    for (int64_t k = 0; k < 8; ++k) step(optimizer, segment, 0, k);
    for (int64_t i = 0; i < 5; ++i) {
      double w = std::sin(0.7 * static_cast<double>(i)), average = w;
      for (int64_t k = 0; k < 8; ++k) {
        w -= 0.1 * std::cos(1.3 * static_cast<double>(i) + 0.9 * static_cast<double>(k));
        average = one.decay(k) * average + (1 - one.decay(k)) * w;
        if (one.overwrite_frequency > 0 && (k + 1) % one.overwrite_frequency == 0) w = average;
      }
      EXPECT_NEAR(segment.weights[i].item<double>(), w, 1e-14) << one.label;
      EXPECT_NEAR(segment.slots[0][i].item<double>(), average, 1e-14) << one.label;
    }
  }
}

TEST(LookAhead, FollowsTheScalarFormula) {
  const Optimizer optimizer = look_ahead(sgd({.learning_rate = 0.1, .momentum = 0.5}),
                                         {.sync_period = 3, .slow_step_size = 0.25});
  Segment segment = begun(optimizer, 0, 5, kFloat64);
  for (int64_t k = 0; k < 8; ++k) step(optimizer, segment, 0, k);
  for (int64_t i = 0; i < 5; ++i) {
    double w = std::sin(0.7 * static_cast<double>(i)), slow = w, u = 0;
    for (int64_t k = 0; k < 8; ++k) {
      u = 0.5 * u - 0.1 * std::cos(1.3 * static_cast<double>(i) + 0.9 * static_cast<double>(k));
      w += u;
      if (k == 2 || k == 5) w = slow = slow + 0.25 * (w - slow);
    }
    EXPECT_NEAR(segment.weights[i].item<double>(), w, 1e-14);
    EXPECT_NEAR(segment.slots[0][i].item<double>(), u, 1e-14);
    EXPECT_NEAR(segment.slots[1][i].item<double>(), slow, 1e-14);
  }
}

// A long run is updated in pieces, wherever it is cut.
TEST(FollowingRules, BitsDoNotDependOnWhereSegmentsBegin) {
  constexpr int64_t kLength = 100'003;
  for (const Optimizer& optimizer :
       {exponential_moving_average(adam({.amsgrad = true}), {.overwrite_frequency = 2}),
        look_ahead(sgd({.momentum = 0.9}), {.sync_period = 2}),
        exponential_moving_average(look_ahead(adagrad(), {.sync_period = 2}))}) {
    Segment whole = begun(optimizer, 0, kLength);
    for (int64_t k = 0; k < 3; ++k) step(optimizer, whole, 0, k);
    const std::vector<int64_t> cuts{0, 999, 66'003, kLength};
    for (size_t c = 0; c + 1 < cuts.size(); ++c) {
      const int64_t begin = cuts[c], end = cuts[c + 1];
      Segment part = begun(optimizer, begin, end);
      for (int64_t k = 0; k < 3; ++k) step(optimizer, part, begin, k);
      EXPECT_TRUE(part.weights.equal(whole.weights.slice(0, begin, end))) << optimizer.describe();
      for (size_t s = 0; s < part.slots.size(); ++s)
        EXPECT_TRUE(part.slots[s].equal(whole.slots[s].slice(0, begin, end)));
    }
  }
}

// Norms are taken over whole variables, however long they are.
TEST(FollowingRules, TheInnerRuleComputesWhatItDoesAlone) {
  constexpr int64_t kLength = 70'001;
  for (const Optimizer& alone : {lamb({.weight_decay = 0.1}), adam()}) {
    const Optimizer followed = exponential_moving_average(alone);
    Segment plain = begun(alone, 0, kLength), segment = begun(followed, 0, kLength);
    for (int64_t k = 0; k < 3; ++k) {
      step(alone, plain, 0, k);
      step(followed, segment, 0, k);
    }
    EXPECT_TRUE(segment.weights.equal(plain.weights)) << alone.name();
    EXPECT_FALSE(segment.slots.back().equal(plain.weights));
  }
}

TEST(ExponentialMovingAverage, TheAverageOfAnExcludedVariableIsItsValue) {
  const Optimizer optimizer =
      exponential_moving_average(sgd({.learning_rate = 0.1}), {.exclude = {"^table$"}});
  EXPECT_TRUE(optimizer.rule().per_variable());
  EXPECT_FALSE(exponential_moving_average(sgd()).rule().per_variable());
  for (const char* name : {"table", "kernel"}) {
    VariableSpec spec;
    spec.name = name;
    Segment segment = begun(optimizer, 0, 4);
    segment.variable = &spec;
    step(optimizer, segment, 0, 0);
    EXPECT_EQ(segment.slots[0].equal(segment.weights), spec.name == "table");
  }
}

TEST(FollowingRules, TellWhatTheyDoAndRefuseWhatTheyCannot) {
  EXPECT_EQ(exponential_moving_average(look_ahead(sgd()), {.decay = 0.5,
                                                           .start_step = 2,
                                                           .dynamic_decay = true,
                                                           .overwrite_frequency = 9,
                                                           .exclude = {"a"}})
                .describe(),
            "SGD: SGD(learning_rate=0.01, momentum=0, nesterov=false), look_ahead(sync_period=6, "
            "slow_step_size=0.5), exponential_moving_average(0.5, start_step=2, dynamic_decay, "
            "overwrite_frequency=9, exclude=[a])");
  EXPECT_EQ(message_of([] { exponential_moving_average(sgd(), {.decay = 1}); }),
            "exponential_moving_average: decay is 1 | decay must be at least 0 and below 1");
  EXPECT_EQ(message_of([] { exponential_moving_average(sgd(), {.start_step = -1}); }),
            "exponential_moving_average: start_step is -1 | start_step must be at least 0");
  EXPECT_EQ(message_of([] { exponential_moving_average(sgd(), {.overwrite_frequency = -1}); }),
            "exponential_moving_average: overwrite_frequency is -1 | overwrite_frequency must be "
            "at least 0");
  EXPECT_EQ(message_of([] { look_ahead(sgd(), {.sync_period = 0}); }),
            "look_ahead: sync_period is 0 | sync_period must be at least 1");
  EXPECT_EQ(message_of([] { look_ahead(sgd(), {.slow_step_size = 0}); }),
            "look_ahead: slow_step_size is 0 | slow_step_size must be above 0 and at most 1");
  EXPECT_EQ(message_of([] { look_ahead(exponential_moving_average(look_ahead(adam()))); }),
            "look_ahead: the optimizer Adam has a slot \"slow\" already | look_ahead stands around "
            "an optimizer once");
}

}  // namespace
}  // namespace muster::inline v0_1::optim
