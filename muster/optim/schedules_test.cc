#include "muster/optim/schedules.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "muster/optim/internal/test_errors.h"
#include "muster/optim/optimizer.h"

namespace muster::inline v0_1::optim {
namespace {

using testing::message_of;

struct At {
  int64_t step;
  double rate;
};

// The expected numbers were worked out from Keras's documented formulas by another program, to 15
// digits.
void expect_rates(const LearningRate& schedule, const std::vector<At>& expected) {
  EXPECT_FALSE(schedule.is_constant());
  for (const At& one : expected) {
    EXPECT_NEAR(schedule.at(one.step), one.rate, 1e-14 + 1e-13 * one.rate)
        << schedule.describe() << " at step " << one.step;
  }
}

TEST(Schedules, FollowKerassFormulas) {
  expect_rates(piecewise_constant_decay({.boundaries = {10, 20}, .values = {1, 0.5, 0.1}}),
               {{0, 1.0}, {10, 1.0}, {11, 0.5}, {20, 0.5}, {21, 0.1}, {1000, 0.1}});
  expect_rates(
      exponential_decay({.initial_learning_rate = 0.1, .decay_steps = 100, .decay_rate = 0.96}),
      {{0, 0.1},
       {1, 0.099959186336522257},
       {50, 0.097979589711327124},
       {100, 0.096},
       {250, 0.090297989877959077},
       {10000, 0.001687031935884965}});
  expect_rates(exponential_decay({.initial_learning_rate = 0.1,
                                  .decay_steps = 100,
                                  .decay_rate = 0.96,
                                  .staircase = true}),
               {{0, 0.1}, {1, 0.1}, {99, 0.1}, {100, 0.096}, {250, 0.09216}});
  expect_rates(
      inverse_time_decay({.initial_learning_rate = 0.1, .decay_steps = 10, .decay_rate = 0.5}),
      {{0, 0.1},
       {1, 0.095238095238095238},
       {10, 0.066666666666666667},
       {25, 0.044444444444444444},
       {1000, 0.0019607843137254902}});
  expect_rates(
      inverse_time_decay(
          {.initial_learning_rate = 0.1, .decay_steps = 10, .decay_rate = 0.5, .staircase = true}),
      {{0, 0.1}, {9, 0.1}, {10, 0.066666666666666667}, {25, 0.05}});
  expect_rates(polynomial_decay({.initial_learning_rate = 0.1, .decay_steps = 100}),
               {{0, 0.1}, {1, 0.099001}, {50, 0.05005}, {100, 0.0001}, {150, 0.0001}});
  expect_rates(polynomial_decay({.initial_learning_rate = 0.1,
                                 .decay_steps = 100,
                                 .end_learning_rate = 0.01,
                                 .power = 0.5}),
               {{0, 0.1},
                {1, 0.099548869339595796},
                {50, 0.073639610306789277},
                {99, 0.019},
                {100, 0.01},
                {150, 0.01}});
  expect_rates(polynomial_decay({.initial_learning_rate = 0.1,
                                 .decay_steps = 100,
                                 .end_learning_rate = 0.01,
                                 .power = 2,
                                 .cycle = true}),
               {{0, 0.1},
                {50, 0.0325},
                {100, 0.01},
                {101, 0.03205225},
                {150, 0.015625},
                {200, 0.01},
                {250, 0.0125}});
  expect_rates(cosine_decay({.initial_learning_rate = 0.1, .decay_steps = 100}),
               {{0, 0.1},
                {1, 0.099975328018286578},
                {25, 0.085355339059327376},
                {50, 0.05},
                {100, 0.0},
                {150, 0.0}});
  expect_rates(cosine_decay({.initial_learning_rate = 0.1, .decay_steps = 100, .alpha = 0.1}),
               {{0, 0.1},
                {1, 0.09997779521645792},
                {25, 0.086819805153394639},
                {50, 0.055},
                {100, 0.01},
                {150, 0.01}});
  expect_rates(cosine_decay_restarts({.initial_learning_rate = 0.1, .first_decay_steps = 10}),
               {{0, 0.1},
                {5, 0.05},
                {9, 0.0024471741852423214},
                {10, 0.1},
                {20, 0.05},
                {29, 0.00061558297024311369},
                {30, 0.1},
                {69, 0.00015413331334360119},
                {70, 0.1},
                {1000, 0.037850991004836806}});
  expect_rates(cosine_decay_restarts({.initial_learning_rate = 0.1,
                                      .first_decay_steps = 10,
                                      .t_mul = 1,
                                      .m_mul = 0.9,
                                      .alpha = 0.1}),
               {{0, 0.1}, {5, 0.055}, {10, 0.091}, {25, 0.04645}, {100, 0.041381059609}});
  expect_rates(one_cycle({.max_learning_rate = 0.1, .total_steps = 100}),
               {{0, 0.004},
                {1, 0.0042813780565907388},
                {29, 0.1},
                {30, 0.099949653528452424},
                {60, 0.058928009028552873},
                {99, 4.0e-7},
                {500, 4.0e-7}});
  expect_rates(one_cycle({.max_learning_rate = 0.1,
                          .total_steps = 50,
                          .pct_start = 0.25,
                          .anneal_strategy = AnnealStrategy::kLinear,
                          .div_factor = 10,
                          .final_div_factor = 100,
                          .three_phase = true}),
               {{0, 0.01},
                {5, 0.049130434782608696},
                {11, 0.09608695652173913},
                {12, 0.09608695652173913},
                {20, 0.033478260869565217},
                {23, 0.01},
                {30, 0.0073346153846153846},
                {49, 0.0001}});
}

TEST(Schedules, AfterAWarmupTheOtherBeginsAtItsFirstStep) {
  const LearningRate decay =
      exponential_decay({.initial_learning_rate = 0.4, .decay_steps = 10, .decay_rate = 0.5});
  const LearningRate warm =
      linear_warmup({.warmup_steps = 4, .start_learning_rate = 0.1, .then = decay});
  expect_rates(warm, {{0, 0.1}, {1, 0.175}, {2, 0.25}, {3, 0.325}, {4, 0.4}, {14, 0.2}});
  const LearningRate smooth = cosine_warmup({.warmup_steps = 4, .then = 0.4});
  expect_rates(smooth, {{0, 0}, {1, 0.2 * (1 - std::sqrt(0.5))}, {2, 0.2}, {4, 0.4}, {99, 0.4}});
  // One in front of another.
  const LearningRate twice = linear_warmup({.warmup_steps = 2, .then = warm});
  expect_rates(twice, {{0, 0}, {1, 0.05}, {2, 0.1}, {3, 0.175}, {6, 0.4}, {16, 0.2}});
  EXPECT_EQ(twice.describe(),
            "LinearWarmup(warmup_steps=2, start_learning_rate=0, then=LinearWarmup(warmup_steps=4, "
            "start_learning_rate=0.1, then=ExponentialDecay(initial_learning_rate=0.4, "
            "decay_steps=10, decay_rate=0.5, staircase=false)))");
}

// Where t_mul^i is not exact, the logarithm of a period's first step is a little too low or high.
TEST(Schedules, ARestartBeginsAtItsExactStep) {
  for (const double t_mul : {1.0, 1.5, 2.0, 3.0, 10.0}) {
    const LearningRate schedule = cosine_decay_restarts(
        {.initial_learning_rate = 1, .first_decay_steps = 64, .t_mul = t_mul, .m_mul = 0.5});
    double start = 0, length = 64;
    for (int period = 0; period < 6; ++period) {
      EXPECT_NEAR(schedule.at(static_cast<int64_t>(start)), std::pow(0.5, period), 1e-12) << t_mul;
      start += length;
      length *= t_mul;
      EXPECT_LT(schedule.at(static_cast<int64_t>(start) - 1), 0.01 * std::pow(0.5, period));
    }
  }
}

TEST(Schedules, PlainNumbersAndOwnFunctionsAreLearningRates) {
  const LearningRate number = 0.25;
  EXPECT_TRUE(number.is_constant());
  EXPECT_EQ(number.at(0), 0.25);
  EXPECT_EQ(number.at(1000000), 0.25);
  EXPECT_EQ(number.describe(), "0.25");
  EXPECT_EQ(LearningRate(1).describe(), "1");
  const LearningRate own("inverse_root(8)", [](int64_t step) { return 1 / std::sqrt(step + 8.0); });
  expect_rates(own, {{1, 1.0 / 3}, {8, 0.25}});
  const Optimizer optimizer = adam({.learning_rate = own});
  EXPECT_EQ(optimizer.rule().schedule().at(8), 0.25);
  EXPECT_EQ(optimizer.rule().learning_rate(), own.at(0));
  EXPECT_EQ(optimizer.describe(),
            "Adam: Adam(learning_rate=inverse_root(8), beta_1=0.9, beta_2=0.999, epsilon=1e-07)");
  EXPECT_TRUE(sgd({.learning_rate = 0.5f}).rule().schedule().is_constant());
}

TEST(Schedules, RatesThatAreNoneAreRefused) {
  const LearningRate falls("falls", [](int64_t step) { return 1.0 - step; });
  EXPECT_EQ(falls.at(1), 0);
  EXPECT_EQ(message_of([&] { falls.at(2); }),
            "the learning rate is -1 at step 2, by falls | a schedule must give finite rates of at "
            "least 0");
  EXPECT_NE(message_of([] { LearningRate("", [](int64_t) { return 1.0; }); }).find("description"),
            std::string::npos);
  EXPECT_NE(message_of([] { LearningRate("none", nullptr); }).find("function"), std::string::npos);
}

// Without its rate a schedule would be 0 in every step, and nothing would train.
TEST(Schedules, TheRateMustBeGiven) {
  const auto missing = [](const std::string& schedule, const std::string& field) {
    return schedule + ": " + field + " is not given | say the rate: " + schedule + "({." + field +
           " = 0.001, ...})";
  };
  const std::string initial = "initial_learning_rate";
  EXPECT_EQ(message_of([] { exponential_decay({.decay_steps = 9, .decay_rate = 0.5}); }),
            missing("exponential_decay", initial));
  EXPECT_EQ(message_of([] { inverse_time_decay({.decay_steps = 9, .decay_rate = 0.5}); }),
            missing("inverse_time_decay", initial));
  EXPECT_EQ(message_of([] { polynomial_decay({.decay_steps = 9}); }),
            missing("polynomial_decay", initial));
  EXPECT_EQ(message_of([] { cosine_decay({.decay_steps = 9}); }), missing("cosine_decay", initial));
  EXPECT_EQ(message_of([] { cosine_decay_restarts({.first_decay_steps = 9}); }),
            missing("cosine_decay_restarts", initial));
  EXPECT_EQ(message_of([] { one_cycle({.total_steps = 9}); }),
            missing("one_cycle", "max_learning_rate"));
  // A rate of 0 that is given is one: it may rise from there.
  EXPECT_EQ(polynomial_decay({.initial_learning_rate = 0, .decay_steps = 2, .end_learning_rate = 1})
                .at(1),
            0.5);
}

TEST(Schedules, RefusedOptionsNameScheduleFieldValueAndRange) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<std::pair<std::string, std::function<void()>>> refused{
      {"exponential_decay: initial_learning_rate is -1 | initial_learning_rate must be finite and "
       "at least 0",
       [] { exponential_decay({.initial_learning_rate = -1, .decay_steps = 1, .decay_rate = 1}); }},
      {"exponential_decay: decay_steps is 0 | decay_steps must be 1 or more",
       [] { exponential_decay({.initial_learning_rate = 1, .decay_rate = 1}); }},
      {"exponential_decay: decay_rate is 0 | decay_rate must be finite and above 0",
       [] { exponential_decay({.initial_learning_rate = 1, .decay_steps = 1}); }},
      {"inverse_time_decay: decay_steps is -3 | decay_steps must be 1 or more",
       [] { inverse_time_decay({.initial_learning_rate = 1, .decay_steps = -3}); }},
      {"inverse_time_decay: decay_rate is -1 | decay_rate must be finite and at least 0",
       [] {
         inverse_time_decay({.initial_learning_rate = 1, .decay_steps = 3, .decay_rate = -1});
       }},
      {"polynomial_decay: power is -1 | power must be finite and at least 0",
       [] { polynomial_decay({.initial_learning_rate = 1, .decay_steps = 1, .power = -1}); }},
      {"polynomial_decay: end_learning_rate is nan | end_learning_rate must be finite and at "
       "least 0",
       [&] {
         polynomial_decay({.initial_learning_rate = 1, .decay_steps = 1, .end_learning_rate = nan});
       }},
      {"cosine_decay: alpha is -0.5 | alpha must be finite and at least 0",
       [] { cosine_decay({.initial_learning_rate = 1, .decay_steps = 1, .alpha = -0.5}); }},
      {"cosine_decay_restarts: t_mul is 0.5 | t_mul must be finite and at least 1",
       [] {
         cosine_decay_restarts({.initial_learning_rate = 1, .first_decay_steps = 1, .t_mul = 0.5});
       }},
      {"cosine_decay_restarts: first_decay_steps is 0 | first_decay_steps must be 1 or more",
       [] { cosine_decay_restarts({.initial_learning_rate = 1}); }},
      {"linear_warmup: warmup_steps is 0 | warmup_steps must be 1 or more",
       [] { linear_warmup({}); }},
      {"cosine_warmup: then is -1 | then must be finite and at least 0",
       [] { cosine_warmup({.warmup_steps = 1, .then = -1}); }},
      {"one_cycle: total_steps is 1 | total_steps must be 2 or more",
       [] { one_cycle({.max_learning_rate = 1, .total_steps = 1}); }},
      {"one_cycle: pct_start is 1.5 | pct_start must be between 0 and 1",
       [] { one_cycle({.max_learning_rate = 1, .total_steps = 9, .pct_start = 1.5}); }},
      {"one_cycle: div_factor is 0 | div_factor must be finite and above 0",
       [] { one_cycle({.max_learning_rate = 1, .total_steps = 9, .div_factor = 0}); }},
      {"piecewise_constant_decay: 1 boundaries and 1 values | there must be one value more than "
       "boundaries",
       [] { piecewise_constant_decay({.boundaries = {1}, .values = {1}}); }},
      {"piecewise_constant_decay: boundaries are 5, 5 | boundaries must rise",
       [] {
         piecewise_constant_decay({.boundaries = {5, 5}, .values = {1, 2, 3}});
       }},
      {"piecewise_constant_decay: values is -2 | values must be finite and at least 0", [] {
         piecewise_constant_decay({.boundaries = {5}, .values = {1, -2}});
       }}};
  for (const auto& [message, make] : refused) EXPECT_EQ(message_of(make), message);
}

}  // namespace
}  // namespace muster::inline v0_1::optim
