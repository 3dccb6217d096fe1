#include "muster/plan/step_bound.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>

namespace muster::inline v0_1::plan {
namespace {

constexpr int64_t kManySteps = 1'000'000, kSteps = 100'000;
constexpr double kFloor = 30;

// How many of the steps take longer than the bound that was learned before them.
int false_alarms(const std::function<double(int64_t step)>& seconds, int64_t steps) {
  StepBound bound(kFloor);
  int alarms = 0;
  for (int64_t step = 0; step < steps; ++step) {
    const double took = seconds(step);
    const auto now = bound.bound();
    alarms += now && took > *now;
    bound.note(took);
  }
  return alarms;
}

// A load on a machine: the median of its steps, and what happens to some of them.
struct Load {
  std::string name{};
  double median = 0.01;
  double spread = 0.1;      // the standard deviation of the logarithm
  double heavy = 0;         // the share of steps whose time has a heavy tail, by this power below
  double power = 2.5;       // P(longer than k times the median) = k^-power
  int64_t pause_every = 0;  // steps between pauses, as of a collector of garbage
  double pause = 0;         // seconds
  double first = 0;         // seconds of the first step, which compiles
  int64_t steps = kManySteps;
};

double seconds_of(const Load& load, int64_t step, std::mt19937_64& random) {
  double seconds = load.median * std::exp(std::normal_distribution<>(0, load.spread)(random));
  std::uniform_real_distribution<> uniform(1e-12, 1);
  if (uniform(random) < load.heavy) seconds *= std::pow(uniform(random), -1 / load.power);
  if (load.pause_every > 0 && step % load.pause_every == load.pause_every - 1)
    seconds += load.pause * (0.5 + uniform(random));
  return step == 0 ? seconds + load.first : seconds;
}

TEST(StepBound, RaisesNoFalseAlarmInAMillionStepsOfAnyLoad) {
  for (const Load& load :
       {Load{.name = "quick and even", .median = 0.0003, .spread = 0.05, .steps = kSteps},
        Load{.name = "compiles first", .median = 0.02, .first = 240, .steps = kSteps},
        Load{.name = "a busy machine", .median = 0.05, .spread = 0.6},
        Load{.name = "heavy tail", .median = 0.01, .heavy = 0.05},
        Load{.name = "collector", .pause_every = 997, .pause = 8},
        Load{.name = "seldom and long", .pause_every = 50'000, .pause = 15, .steps = kSteps},
        Load{.name = "slow steps", .median = 5, .spread = 0.3, .steps = kSteps},
        Load{.name = "slow, uneven steps", .median = 40, .spread = 0.5},
        Load{.name = "slow, with pauses",
        .median = 20,
        .spread = 0.1,
        .pause_every = 500,
        .pause = 100,
        .steps = kSteps},
        Load{.name = "slow, heavy tail", .median = 1, .spread = 0.2, .heavy = 0.01, .power = 6}}) {
    std::mt19937_64 random(1);
    EXPECT_EQ(
        false_alarms([&](int64_t step) { return seconds_of(load, step, random); }, load.steps), 0)
        << load.name;
  }
}

// Every 1,000 steps the lengths of batches change, and with them the time of a step.
TEST(StepBound, FollowsStepsThatBecomeLonger) {
  std::mt19937_64 random(3);
  const double factors[] = {1, 4, 2, 8, 1};
  EXPECT_EQ(false_alarms(
                [&](int64_t step) {
                  return seconds_of({.median = 10 * factors[step / 1000 % 5]}, step, random);
                },
                kSteps),
            0);
}

// A bound that never raises an alarm would be of no use.
TEST(StepBound, AStepThatHangsIsReportedSoon) {
  const auto bound_after = [](const Load& load) {
    std::mt19937_64 random(1);
    StepBound bound(kFloor);
    for (int64_t step = 0; step < 5000; ++step) bound.note(seconds_of(load, step, random));
    return *bound.bound();
  };
  EXPECT_DOUBLE_EQ(bound_after({.median = 0.0003}), kFloor);
  EXPECT_DOUBLE_EQ(bound_after({.median = 0.05, .spread = 0.6}), kFloor);
  // About ten times the median; an even load is not reported sooner.
  EXPECT_NEAR(bound_after({.median = 6, .spread = 0.1}), 60, 3);
  // exp(8 * 0.5) is 55 times the median.
  const double uneven = bound_after({.median = 6, .spread = 0.5});
  EXPECT_GT(uneven, 6 * 40);
  EXPECT_LT(uneven, 6 * 75);
}

TEST(StepBound, LearnsFromTwentyStepsBeforeItSpeaks) {
  StepBound bound(1);
  EXPECT_EQ(bound.median(), 0);
  for (int step = 0; step < 19; ++step) {
    EXPECT_FALSE(bound.bound());
    bound.note(0.5);
  }
  EXPECT_FALSE(bound.bound());
  bound.note(0.5);
  EXPECT_DOUBLE_EQ(*bound.bound(), 10 * bound.median());
  EXPECT_NEAR(bound.median(), 0.5, 1e-6);
  // What took long once, and ended, is remembered, and forgotten.
  bound.note(50);
  EXPECT_DOUBLE_EQ(*bound.bound(), 150);
  EXPECT_NEAR(bound.longest(), 50, 1e-4);
  for (int step = 0; step < 20'000; ++step) bound.note(0.5);
  EXPECT_NEAR(*bound.bound(), 75, 0.1);
  for (int step = 0; step < 200'000; ++step) bound.note(0.5);
  EXPECT_DOUBLE_EQ(*bound.bound(), 10 * bound.median());
}

}  // namespace
}  // namespace muster::inline v0_1::plan
