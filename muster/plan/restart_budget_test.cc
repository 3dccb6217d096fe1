#include "muster/plan/restart_budget.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>

namespace muster::inline v0_1::plan {
namespace {

TEST(RestartBudget, AsMuchAsItHasWithinTheWindow) {
  RestartBudget budget({.restarts = 2, .window = 100});
  EXPECT_TRUE(budget.take(0));
  EXPECT_TRUE(budget.take(50));
  EXPECT_FALSE(budget.take(99));
  EXPECT_EQ(budget.used(99), 2);
  // The first one is out of the window now, and the refused one was never taken.
  EXPECT_TRUE(budget.take(100));
  EXPECT_FALSE(budget.take(101));
  EXPECT_EQ(budget.used(1000), 0);
}

TEST(RestartBudget, NothingWithoutRestarts) { EXPECT_FALSE(RestartBudget({}).take(0)); }

TEST(RestartBudget, PausesDoubleWithJitterUpToTheLongest) {
  std::set<double> of_seeds;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    RestartBudget budget({.restarts = 12, .seed = seed});
    EXPECT_EQ(budget.take(0), 0.0);
    double base = 1;
    for (int n = 2; n <= 12; ++n) {
      const std::optional<double> pause = budget.take(n);
      ASSERT_TRUE(pause);
      EXPECT_GE(*pause, base * 0.5);
      EXPECT_LT(*pause, base * 1.5);
      if (n == 2) of_seeds.insert(*pause);
      base = base * 2 < 60 ? base * 2 : 60;
    }
  }
  EXPECT_EQ(of_seeds.size(), 20u);  // runs that failed together do not start together
  // A quiet window later the first restart waits for nothing again.
  RestartBudget budget({.restarts = 3, .window = 10});
  EXPECT_EQ(budget.take(0), 0.0);
  EXPECT_GT(*budget.take(1), 0.0);
  EXPECT_EQ(budget.take(20), 0.0);
}

TEST(RestartBudget, AStartThatLastsMakesThePauseZeroAgain) {
  RestartBudget budget({.restarts = 10, .calm = 30});
  EXPECT_EQ(budget.take(0), 0.0);
  const double first = budget.take(29).value();
  EXPECT_GE(first, 0.5);
  // The pause itself does not count as a start that lasts.
  EXPECT_GT(budget.take(29 + first + 29).value(), 0.9);
  EXPECT_EQ(budget.take(200), 0.0);
  EXPECT_EQ(budget.take(230), 0.0);
  const double again = budget.take(231).value();
  EXPECT_GE(again, 0.5);
  EXPECT_LT(again, 1.5);
  EXPECT_EQ(budget.used(231), 6);
}

TEST(RestartBudget, CodesThatWillRepeatDoNotAsk) {
  for (const int code : {0, 1, 2, 126, 127, 128, 193, 255})
    EXPECT_FALSE(asks_for_restart(code)) << code;
  for (const int code : {130, 134, 137, 138, 139, 143}) EXPECT_TRUE(asks_for_restart(code)) << code;
}

}  // namespace
}  // namespace muster::inline v0_1::plan
