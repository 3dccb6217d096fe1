#include "muster/board/chart_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace muster::inline v0_1::board {
namespace {

using ::testing::ElementsAre;
using ::testing::IsNan;

ScalarSeries series_of(int points, int64_t stride, float scale) {
  ScalarSeries series;
  for (int point = 0; point < points; ++point) {
    series.add(1 + point * stride, 1000 + point, scale * float(std::sin(point * 0.7)));
  }
  return series;
}

TEST(ChartTable, FewPointsAreShownAsTheyAre) {
  const ScalarSeries a = series_of(3, 1, 1), b = series_of(2, 2, 2);
  const ChartTable table = make_chart({a.bins(), b.bins()}, {});
  EXPECT_TRUE(table.is_exact);
  EXPECT_THAT(table.x, ElementsAre(1, 2, 3));
  EXPECT_THAT(table.lines[0].values, ElementsAre(0, float(std::sin(0.7)), float(std::sin(1.4))));
  EXPECT_THAT(table.lines[1].values, ElementsAre(0, IsNan(), 2 * float(std::sin(0.7))));
}

TEST(ChartTable, AxesOfTime) {
  const ScalarSeries a = series_of(3, 1, 1);
  EXPECT_THAT(make_chart({a.bins()}, {.axis = ChartAxis::kWall}).x, ElementsAre(1000, 1001, 1002));
  EXPECT_THAT(make_chart({a.bins()}, {.axis = ChartAxis::kRelative}).x, ElementsAre(0, 1, 2));
}

// Whatever the number of points, of runs and of intervals: no peak is lost.
TEST(ChartTable, AThinnedChartKeepsTheLeastAndTheGreatestOfEachInterval) {
  for (const int points : {2000, 50'000}) {
    ScalarSeries peak = series_of(points, 1, 1), other = series_of(points, 3, 1);
    peak.add(points + 1, 9e9, 77);
    for (int point = 0; point < points; ++point) peak.add(points + 2 + point, 9e9, 0);
    peak.add(2 * points + 2, 9e9, -55);
    const ChartTable table = make_chart({peak.bins(), other.bins()}, {.intervals = 100});
    EXPECT_FALSE(table.is_exact);
    ASSERT_EQ(table.x.size(), 200U);
    EXPECT_TRUE(std::ranges::is_sorted(table.x));
    const std::vector<double>& values = table.lines[0].values;
    EXPECT_EQ(std::ranges::count(values, 77.0), 1);
    EXPECT_EQ(std::ranges::count(values, -55.0), 1);
    int64_t count = 0;
    for (const int64_t each : table.lines[0].counts) count += each;
    EXPECT_EQ(count, peak.count());
    double sum = 0, expected = 0;
    for (size_t at = 0; at < table.lines[0].means.size(); ++at) {
      if (table.lines[0].counts[at] > 0)
        sum += table.lines[0].means[at] * double(table.lines[0].counts[at]);
    }
    for (const ScalarBin& bin : peak.bins()) expected += bin.sum;
    EXPECT_NEAR(sum, expected, 1e-6 * points);
  }
}

TEST(ChartTable, APartOfTheAxisAndALogarithmicAxis) {
  const ScalarSeries a = series_of(1500, 1, 1);
  const ChartTable part = make_chart({a.bins()}, {.from = 100, .to = 102});
  EXPECT_TRUE(part.is_exact);
  EXPECT_THAT(part.x, ElementsAre(100, 101, 102));
  const ChartTable log = make_chart({a.bins()}, {.intervals = 20, .logarithmic = true});
  ASSERT_EQ(log.x.size(), 40U);
  for (size_t at = 2; at < log.x.size(); at += 2)
    EXPECT_NEAR(log.x[at] / log.x[at - 2], std::pow(1500, 1 / 20.0), 1e-6);
  ScalarSeries zero;
  zero.add(0, 1, 1);
  EXPECT_TRUE(make_chart({zero.bins()}, {.logarithmic = true}).x.empty());
}

TEST(ChartTable, ValuesThatAreNotFiniteAreNamedByTheirPlace) {
  ScalarSeries series;
  series.add(1, 1, std::numeric_limits<float>::infinity());
  series.add(2, 2, 5);
  series.add(3, std::numeric_limits<double>::quiet_NaN(), 6);
  const ChartTable table = make_chart({series.bins()}, {});
  EXPECT_THAT(table.lines[0].values, ElementsAre(IsNan(), 5, 6));
  ASSERT_EQ(table.lines[0].odd.size(), 1U);
  EXPECT_EQ(table.lines[0].odd[0].first, 1);
  // A time that is none has no place on an axis of time.
  EXPECT_EQ(make_chart({series.bins()}, {.axis = ChartAxis::kWall}).x.size(), 2U);
}

TEST(ChartTable, NothingIsAnEmptyChart) {
  EXPECT_TRUE(make_chart({}, {}).x.empty());
  EXPECT_EQ(make_chart({{}, {}}, {}).lines.size(), 2U);
}

}  // namespace
}  // namespace muster::inline v0_1::board
