#include "muster/board/scalar_series.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace muster::inline v0_1::board {
namespace {

TEST(ScalarSeries, FewPointsAreKeptAsTheyAre) {
  ScalarSeries series(4);
  for (int step = 1; step <= 4; ++step) series.add(step, 10.0 * step, float(step * step));
  EXPECT_TRUE(series.is_exact());
  ASSERT_EQ(series.bins().size(), 4U);
  EXPECT_EQ(series.bins()[2].low, 9);
  EXPECT_EQ(series.bins()[2].high, 9);
  EXPECT_EQ(series.bins()[2].first_step, 3);
  EXPECT_EQ(series.bins()[2].last_wall, 30);
}

// The bins of any number of points have all that the points have together.
TEST(ScalarSeries, BinsKeepLeastGreatestSumAndCount) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> values(-1, 1);
  for (const int count : {1, 15, 16, 17, 31, 33, 100, 1000, 12345}) {
    ScalarSeries series(16);
    std::vector<float> all;
    for (int step = 0; step < count; ++step) {
      all.push_back(values(random));
      series.add(step, step, all.back());
    }
    ASSERT_LE(series.bins().size(), 16U);
    ASSERT_GE(series.bins().size(), std::min(count, 8) * 1U);
    size_t begin = 0;
    for (const ScalarBin& bin : series.bins()) {
      ASSERT_EQ(bin.first_step, int64_t(begin));
      const auto from = all.begin() + std::ptrdiff_t(begin), to = from + bin.count;
      const auto [low, high] = std::minmax_element(from, to);
      EXPECT_EQ(bin.low, *low);
      EXPECT_EQ(bin.high, *high);
      EXPECT_EQ(bin.low_first, low <= high);
      EXPECT_NEAR(bin.sum, std::accumulate(from, to, 0.0), 1e-4);
      begin += bin.count;
      EXPECT_EQ(bin.last_step, int64_t(begin) - 1);
    }
    EXPECT_EQ(begin, all.size());
    EXPECT_EQ(series.count(), count);
    EXPECT_EQ(series.last(), all.back());
  }
}

TEST(ScalarSeries, ValuesThatAreNotFiniteAreCountedAndSpoilNothing) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  ScalarSeries series(2);
  for (const float value : {kNan, 1.0F, kInfinity, 3.0F, -kInfinity, kNan, kNan, kNan})
    series.add(1, 1, value);
  ASSERT_EQ(series.bins().size(), 2U);
  EXPECT_EQ(series.bins()[0].low, 1);
  EXPECT_EQ(series.bins()[0].high, 3);
  EXPECT_EQ(series.bins()[0].odd, 2U);
  EXPECT_EQ(series.bins()[0].sum, 4);
  EXPECT_EQ(series.bins()[1].odd, 4U);
  EXPECT_FALSE(std::isfinite(series.bins()[1].low));
}

TEST(ScalarSeries, ARestartDropsItsStepAndLaterOnes) {
  ScalarSeries series(8);
  for (int step = 0; step < 8; ++step) series.add(step, step, 1);
  series.drop_from(5);
  EXPECT_EQ(series.count(), 5);
  EXPECT_EQ(series.bins().back().last_step, 4);
  series.add(5, 20, 2);
  EXPECT_EQ(series.bins().back().first_step, 5);
}

}  // namespace
}  // namespace muster::inline v0_1::board
