#include "muster/summary/histogram.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <vector>

#include "muster/base/random.h"

namespace muster::inline v0_1::summary {
namespace {

TEST(Histogram, MomentsAndTotalsHold) {
  Random random(derive_key(9, {}));
  std::vector<double> values = {
      0, -0.0, 1e-13, -1e-13, 1e30, -1e30, std::numeric_limits<double>::max() / 1e200};
  for (int i = 0; i < 1000; ++i) values.push_back(random.normal());
  const formats::Histogram histogram = make_histogram(values);
  EXPECT_EQ(histogram.count, static_cast<double>(values.size()));
  EXPECT_EQ(histogram.sum, std::accumulate(values.begin(), values.end(), 0.0));
  EXPECT_EQ(histogram.min, -1e30);
  ASSERT_EQ(histogram.limits.size(), histogram.counts.size());
  EXPECT_EQ(std::accumulate(histogram.counts.begin(), histogram.counts.end(), 0.0),
            histogram.count);
  // Each bucket holds exactly the values between its limit and the one before.
  double below = -std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < histogram.limits.size(); ++i) {
    double inside = 0;
    for (const double value : values)
      inside += value >= below && value < histogram.limits[i] ? 1 : 0;
    EXPECT_EQ(histogram.counts[i], inside) << i;
    EXPECT_GT(histogram.limits[i], below);
    below = histogram.limits[i];
  }
}

TEST(Histogram, OneValueTakesThreeBuckets) {
  const std::vector<float> values = {1, 1};
  const formats::Histogram histogram = make_histogram(values);
  // The empty ones below in one, its own, the empty ones above in one.
  EXPECT_EQ(histogram.counts, (std::vector<double>{0, 2, 0}));
  EXPECT_LE(histogram.limits[0], 1);
  EXPECT_GT(histogram.limits[1], 1);
  EXPECT_LT(histogram.limits[1] / histogram.limits[0], 1.1000001);
  EXPECT_EQ(histogram.sum_squares, 2);
}

TEST(Histogram, EmptyAndExtremes) {
  const formats::Histogram none = make_histogram(std::span<const float>());
  EXPECT_EQ(none.counts, (std::vector<double>{0}));
  EXPECT_EQ(none.min, 0);
  const std::vector<double> extremes = {std::numeric_limits<double>::max(),
                                        std::numeric_limits<double>::lowest()};
  EXPECT_EQ(make_histogram(extremes).count, 2);
  const std::vector<double> infinite = {std::numeric_limits<double>::infinity()};
  EXPECT_THROW(make_histogram(infinite), Error);
}

TEST(Histogram, MergedIsThatOfAllValues) {
  const std::vector<double> values = {-3, -1e-13, 0, 1e-9, 0.25, 0.25, 7, 1e25, 12, -3};
  const formats::Histogram all = make_histogram(values);
  for (size_t cut = 0; cut <= values.size(); ++cut) {
    const std::span<const double> whole(values);
    const formats::Histogram merged =
        merge_histograms(make_histogram(whole.first(cut)), make_histogram(whole.subspan(cut)));
    EXPECT_EQ(merged.limits, all.limits) << cut;
    EXPECT_EQ(merged.counts, all.counts) << cut;
    EXPECT_EQ(merged.min, all.min);
    EXPECT_EQ(merged.max, all.max);
    EXPECT_EQ(merged.count, all.count);
    EXPECT_DOUBLE_EQ(merged.sum, all.sum);
    EXPECT_DOUBLE_EQ(merged.sum_squares, all.sum_squares);
  }
  formats::Histogram strange{.count = 1, .limits = {0.3}, .counts = {1}};
  EXPECT_THROW(merge_histograms(all, strange), Error);
}

}  // namespace
}  // namespace muster::inline v0_1::summary
