#include "muster/trees/internal/histogram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "muster/base/random.h"
#include "muster/trees/internal/split.h"

namespace muster::inline v0_1::trees {
namespace {

struct Table {
  Bins bins;
  BinnedRows rows;
  std::vector<int64_t> packed{};
  Scale scale{};
  Derivatives derivatives{};
};

Table random_table(int64_t rows, uint64_t seed, size_t features = 7) {
  Random random(derive_key(seed, {}));
  Table table{.bins = {.category = std::vector<bool>(features), .offsets = {0}},
              .rows = {.rows = rows, .features = features}};
  for (size_t f = 0; f < features; ++f) {
    std::vector<double> upper(3 + 40 * f);
    std::iota(upper.begin(), upper.end(), 0.0);
    table.bins.offsets.push_back(table.bins.offsets.back() + static_cast<uint32_t>(upper.size()) +
                                 1);
    table.bins.upper.push_back(upper);
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (const auto& upper : table.bins.upper)
      table.rows.bins.push_back(static_cast<uint8_t>(random.uniform_below(upper.size() + 1)));
    table.derivatives.gradients.push_back(static_cast<float>(random.normal()));
    table.derivatives.hessians.push_back(static_cast<float>(random.uniform()));
  }
  table.scale = scale_for(8, 1);
  table.packed = quantize(table.derivatives, table.scale);
  return table;
}

std::vector<uint32_t> every(const Table& table, uint32_t step, uint32_t first = 0) {
  std::vector<uint32_t> rows;
  for (uint32_t i = first; i < table.rows.rows; i += step) rows.push_back(i);
  return rows;
}

Histogram histogram_of(const Table& table, const std::vector<uint32_t>& rows) {
  Histogram sums(table.bins.total());
  Histograms(table.bins, table.rows).sum(rows, table.packed, sums);
  return sums;
}

TEST(GradientsTest, NumbersAreWholeAndNear) {
  const Table table = random_table(1000, 1);
  for (size_t i = 0; i < table.packed.size(); ++i) {
    const Sums sums = unpack(table.packed[i]);
    EXPECT_NEAR(static_cast<double>(sums.gradient) * table.scale.gradient,
                table.derivatives.gradients[i], 8.0 / (1 << 21));
    EXPECT_NEAR(static_cast<double>(sums.hessian) * table.scale.hessian,
                table.derivatives.hessians[i], 1.0 / (1 << 15));
    EXPECT_GE(sums.hessian, 1);
  }
}

TEST(GradientsTest, TheLargestSumsFit) {
  const Derivatives largest{.gradients = std::vector<float>(kSumsOfPacked, -4.0F),
                            .hessians = std::vector<float>(kSumsOfPacked, 0.25F)};
  const Scale scale = scale_for(4, 0.25);
  int64_t sum = 0;
  for (const int64_t packed : quantize(largest, scale)) sum += packed;
  EXPECT_NEAR(static_cast<double>(unpack(sum).gradient) * scale.gradient, -4.0 * kSumsOfPacked, 1);
  EXPECT_NEAR(static_cast<double>(unpack(sum).hessian) * scale.hessian, 0.25 * kSumsOfPacked, 1);
}

// More rows than a packed sum holds.
TEST(HistogramTest, SumsAreThoseOfTheRows) {
  const Table table = random_table(3 * kSumsOfPacked, 2);
  const auto rows = every(table, 2);
  Histogram expected(table.bins.total());
  for (const uint32_t row : rows) {
    for (size_t f = 0; f < table.rows.features; ++f) {
      expected[table.bins.offsets[f] + table.rows.bins[row * table.rows.features + f]] +=
          unpack(table.packed[row]);
    }
  }
  EXPECT_EQ(histogram_of(table, rows), expected);
}

TEST(HistogramTest, TheParentMinusAChildIsTheOtherChild) {
  const Table table = random_table(30'000, 3);
  Histogram rest = histogram_of(table, every(table, 1));
  for (const uint32_t first : {0U, 2U})
    subtract(histogram_of(table, every(table, 3, first)), &rest);
  EXPECT_EQ(rest, histogram_of(table, every(table, 3, 1)));
}

// All questions that can be asked, in doubles.
TEST(SplitTest, TheBestIsThatOfAllThereAre) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Table table = random_table(60, seed, 4);
    table.bins.category[2] = true;
    const Regularization regularization{.l1 = 0.3, .l2 = 1.5, .min_node_weight = 2};
    const auto rows = every(table, 1);
    const Histogram histogram = histogram_of(table, rows);
    Sums node;
    for (const uint32_t row : rows) node += unpack(table.packed[row]);
    const auto score = [&](double g, double h) {
      const double soft = std::max(std::abs(g) - regularization.l1, 0.0);
      return soft * soft / (h + regularization.l2);
    };
    double best = 0;
    for (uint32_t f = 0; f < 4; ++f) {
      for (size_t bin = 1; bin <= table.bins.upper[f].size(); ++bin) {
        for (const bool missing_left : {false, true}) {
          const Split split{.feature = f,
                            .bin = static_cast<uint8_t>(bin),
                            .category = table.bins.category[f],
                            .missing_left = missing_left};
          double g[2] = {0, 0}, h[2] = {0, 0};
          for (const uint32_t row : rows) {
            const size_t side = split.goes_left(table.rows.bins[row * 4 + f]) ? 0 : 1;
            g[side] += table.derivatives.gradients[row];
            h[side] += table.derivatives.hessians[row];
          }
          if (h[0] < 2 || h[1] < 2) continue;
          best = std::max(best,
                          score(g[0], h[0]) + score(g[1], h[1]) - score(g[0] + g[1], h[0] + h[1]));
        }
      }
    }
    const auto found = best_split(histogram, node, table.bins, table.scale, regularization);
    ASSERT_TRUE(found.has_value());
    EXPECT_NEAR(found->gain, best, 1e-3 * best) << seed;
  }
}

TEST(SplitTest, EqualRowsAreNotSplit) {
  Table table = random_table(100, 5);
  table.derivatives.gradients.assign(100, 0.1F);
  table.derivatives.hessians.assign(100, 0.3F);
  table.packed = quantize(table.derivatives, table.scale);
  Sums node;
  for (const int64_t packed : table.packed) node += unpack(packed);
  EXPECT_FALSE(best_split(histogram_of(table, every(table, 1)), node, table.bins, table.scale, {}));
}

}  // namespace
}  // namespace muster::inline v0_1::trees
