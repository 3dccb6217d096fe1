#include "muster/trees/internal/bins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/base/error_of.h"
#include "muster/base/random.h"

namespace muster::inline v0_1::trees {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();

Rows one_column(std::vector<float> values, std::vector<float> weights = {}) {
  Rows rows{.features = {"x"}, .columns = {std::move(values)}, .weights = std::move(weights)};
  rows.labels.resize(rows.columns[0].size());
  return rows;
}

Bins bins_of(const Rows& rows, bool category = false) {
  return make_bins(rows, std::vector<bool>{category}, *distribute::make_lone_exchange());
}

TEST(BinsTest, FewValuesHaveABinEach) {
  const Rows rows = one_column({2.5F, -1, kMissing, 0, 2.5F, -0.0F, 1e-30F, 1e30F});
  const Bins bins = bins_of(rows);
  EXPECT_THAT(bins.upper[0], ElementsAre(-1, 0, 1e-30F, 2.5F, 1e30F));
  EXPECT_THAT(bin_rows(rows, bins).bins, ElementsAre(4, 1, 0, 2, 4, 2, 3, 5));
}

TEST(BinsTest, InfinityIsAValue) {
  const float most = std::numeric_limits<float>::infinity();
  const Rows rows = one_column({most, -most, 3});
  EXPECT_THAT(bins_of(rows).upper[0], ElementsAre(-most, 3, most));
}

TEST(BinsTest, AColumnOfNothingHasNoValues) {
  const Rows rows = one_column({kMissing, kMissing});
  EXPECT_TRUE(bins_of(rows).upper[0].empty());
  EXPECT_THAT(bin_rows(rows, bins_of(rows)).bins, ElementsAre(0, 0));
}

// The values where the weights from below pass 1/255, 2/255, ...: by sorting.
std::vector<double> quantiles(const Rows& rows) {
  std::vector<std::pair<double, double>> values;
  double total = 0;
  for (size_t i = 0; i < static_cast<size_t>(rows.size()); ++i) {
    if (std::isnan(rows.value(0, i))) continue;
    values.emplace_back(rows.value(0, i), rows.weights.empty() ? 1.0 : rows.weights[i]);
    total += values.back().second;
  }
  std::ranges::sort(values);
  std::vector<double> cuts;
  double below = 0;
  int next = 1;
  for (const auto& [value, weight] : values) {
    below += weight;
    const int before = next;
    while (next <= 255 && below * 255 >= next * total - 1e-6) ++next;
    if (next != before && (cuts.empty() || cuts.back() != value)) cuts.push_back(value);
  }
  return cuts;
}

TEST(BinsTest, ManyValuesAreCutAtTheirQuantiles) {
  Random random(derive_key(3, {}));
  for (const bool weighted : {false, true}) {
    std::vector<float> values, weights;
    for (int i = 0; i < 20'000; ++i) {
      const double value = std::exp(3 * random.normal());
      values.push_back(random.uniform() < 0.2 ? kMissing : static_cast<float>(value));
      if (weighted) weights.push_back(static_cast<float>(1 + random.uniform_below(4)));
    }
    const Rows rows = one_column(values, weights);
    EXPECT_EQ(bins_of(rows).upper[0], quantiles(rows)) << weighted;
  }
}

// All begin with the same 16 bits, so that only the last ones distinguish them.
TEST(BinsTest, NeighboursAreDistinguished) {
  std::vector<float> values;
  for (float x = 1000; values.size() < 5000; x = std::nextafter(x, 2000.0F)) values.push_back(x);
  const Rows rows = one_column(values);
  const Bins bins = bins_of(rows);
  EXPECT_EQ(bins.upper[0], quantiles(rows));
  const BinnedRows binned = bin_rows(rows, bins);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t bin = binned.bins[i];
    ASSERT_LE(values[i], bins.upper[0][bin - 1]);
    if (bin > 1) {
      ASSERT_GT(values[i], bins.upper[0][bin - 2]);
    }
  }
}

Rows in_double(std::vector<double> values, std::vector<float> weights = {}) {
  Rows rows = one_column(std::vector<float>(values.size()), std::move(weights));
  rows.columns = {{}};
  rows.in_double = {true};
  rows.doubles = {std::move(values)};
  return rows;
}

TEST(BinsTest, DoublesHaveBinsWhereFloatsFallTogether) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const Rows days = in_double({20180131, 20180132, kNone, -1e300, 20180131, -0.0});
  const Bins few = bins_of(days);
  EXPECT_THAT(few.upper[0], ElementsAre(-1e300, 0, 20180131, 20180132));
  EXPECT_THAT(bin_rows(days, few).bins, ElementsAre(3, 4, 0, 1, 3, 2));
  // The first 40 bits are the same, and numbers of both signs and all sizes.
  Random random(derive_key(7, {}));
  std::vector<double> near, any;
  std::vector<float> weights;
  double x = 1.5e18;
  for (int i = 0; i < 5000; ++i) {
    near.push_back(x);
    x = std::nextafter(x, 2e18);
    any.push_back(std::exp(20 * random.normal()) * (i % 2 == 0 ? 1 : -1));
    weights.push_back(static_cast<float>(1 + random.uniform_below(4)));
  }
  for (const Rows& rows : {in_double(near), in_double(any), in_double(any, weights)}) {
    const Bins bins = bins_of(rows);
    EXPECT_EQ(bins.upper[0], quantiles(rows));
    const BinnedRows binned = bin_rows(rows, bins);
    for (size_t i = 0; i < 5000; ++i) {
      const size_t bin = binned.bins[i];
      ASSERT_EQ(bin, binned.column(0)[i]);
      ASSERT_LE(rows.value(0, i), bins.upper[0][bin - 1]);
      if (bin > 1) {
        ASSERT_GT(rows.value(0, i), bins.upper[0][bin - 2]);
      }
    }
  }
}

TEST(BinsTest, TooManyCategoriesAreRefused) {
  std::vector<float> values(256);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  EXPECT_THAT(message_of([&] { bins_of(one_column(values), /*category=*/true); }),
              HasSubstr("'x' has more than 255 values"));
  values.pop_back();
  EXPECT_EQ(bins_of(one_column(values), /*category=*/true).upper[0].size(), 255u);
}

}  // namespace
}  // namespace muster::inline v0_1::trees
