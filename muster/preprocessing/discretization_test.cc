#include "muster/preprocessing/discretization.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "muster/base/random.h"
#include "muster/preprocessing/internal/quantile_sketch.h"
#include "muster/preprocessing/internal/test_calls.h"

namespace muster::inline v0_1 {
namespace {

using testing::Calls;
using ::testing::ElementsAre;
using testing::expect_equal;
using testing::floats;
using ::testing::HasSubstr;
using testing::ints;

Tensor documented() { return floats({-1.5, 1.0, 3.4, .5, 0.0, 3.0, 1.3, 0.0}, {2, 4}); }

// The two examples of Keras's documentation.
TEST(DiscretizationTest, DocumentedExamples) {
  const Discretization given({.bin_boundaries = {0, 1, 2}});
  expect_equal(given(documented()), ints({0, 2, 3, 1, 1, 3, 2, 1}, {2, 4}));
  const Discretization adapted =
      Discretization({.num_bins = 4, .epsilon = 0.01}).adapt(documented());
  expect_equal(adapted(documented()), ints({0, 2, 3, 2, 1, 3, 3, 1}, {2, 4}));
  EXPECT_THAT(adapted.bin_boundaries(), ElementsAre(0, 0.5, ::testing::DoubleNear(1.3, 1e-6)));
}

TEST(DiscretizationTest, ABoundaryBelongsToTheBinAboveIt) {
  const Discretization bins({.bin_boundaries = {0.1, 0.7}});
  const auto nan = std::numeric_limits<double>::quiet_NaN();
  // 0.7 in float32 is a little less than in float64.
  expect_equal(bins(floats({0.1, 0.7, nan, -1e30, 1e30}, {5})), ints({1, 2, 2, 0, 2}, {5}));
  expect_equal(bins(torch::tensor({0.1, 0.7}, kFloat64)), ints({1, 2}, {2}));
  const Discretization tens({.bin_boundaries = {10, 20}});
  expect_equal(tens(ints({9, 10, 20, 25}, {2, 2})), ints({0, 1, 2, 2}, {2, 2}));
}

TEST(DiscretizationTest, EncodesBins) {
  const Tensor x = floats({-1, 5, 5}, {1, 3});
  const auto with = [&](OutputMode mode) {
    return Discretization({.bin_boundaries = {0, 1}, .output_mode = mode})(x);
  };
  expect_equal(with(OutputMode::kMultiHot), floats({1, 0, 1}, {1, 3}));
  expect_equal(with(OutputMode::kCount), floats({1, 0, 2}, {1, 3}));
  expect_equal(with(OutputMode::kOneHot), floats({1, 0, 0, 0, 0, 1, 0, 0, 1}, {1, 3, 3}));
  Calls calls;
  const Layer layer = Discretization({.bin_boundaries = {0, 1}});
  expect_equal(layer(x, calls.context), ints({0, 2, 2}, {1, 3}));
}

TEST(DiscretizationTest, AnySplitIntoBatchesGivesTheSameBits) {
  const Tensor all = torch::sin(torch::arange(999, kFloat64) * 12.9898).reshape({333, 3});
  const auto whole = Discretization({.num_bins = 7}).adapt(all).bin_boundaries();
  EXPECT_EQ(whole.size(), 6u);
  for (const int64_t batch : {1, 10, 332}) {
    EXPECT_EQ(Discretization({.num_bins = 7})
                  .adapt(Dataset::from_tensor_slices(all).batch(batch))
                  .bin_boundaries(),
              whole);
  }
  // Each bin has a seventh of the numbers.
  const Tensor counts =
      torch::bincount(Discretization({.bin_boundaries = whole})(all).reshape({-1}));
  EXPECT_LE((counts - 999 / 7).abs().max().item<int64_t>(), 1) << counts;
}

TEST(DiscretizationTest, FewerNumbersThanBins) {
  EXPECT_THAT(Discretization({.num_bins = 5}).adapt(floats({3, 1, 2}, {3})).bin_boundaries(),
              ElementsAre(1, 2));
  const Discretization one = Discretization({.num_bins = 1}).adapt(floats({3, 1, 2}, {3}));
  expect_equal(one(floats({0, 9}, {2})), ints({0, 0}, {2}));
}

// Blocks here have 1000 numbers, so that 40 summaries are made of these.
TEST(QuantileSketchTest, RanksAreOffByLessThanEpsilon) {
  Random random(derive_key(5, {id_of("sketch")}));
  std::vector<double> values;
  // A sketch might stumble over sorted stretches and repeated numbers.
  for (int i = 0; i < 40'500; ++i)
    values.push_back(i % 3 == 0 ? i * 1e-4 : i % 3 == 1 ? random.normal() : std::floor(i / 5000.0));
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  const auto n = static_cast<double>(values.size());
  for (const double epsilon : {0.1, 0.01}) {
    internal::QuantileSketch whole(epsilon, 1000), cut(epsilon, 1000);
    whole.add(values);
    for (size_t at = 0; at < values.size(); at += 17)
      cut.add(std::span(values).subspan(at, std::min<size_t>(17, values.size() - at)));
    const std::vector<double> boundaries = whole.boundaries(20);
    EXPECT_EQ(cut.boundaries(20), boundaries);
    ASSERT_EQ(boundaries.size(), 19u);
    for (size_t i = 0; i < boundaries.size(); ++i) {
      const auto [first, last] = std::equal_range(sorted.begin(), sorted.end(), boundaries[i]);
      const double wanted = static_cast<double>(i + 1) / 20;
      // Numbers that are the same take up all ranks from the first to the last of them.
      EXPECT_LE(static_cast<double>(first - sorted.begin()) / n, wanted + epsilon) << i;
      EXPECT_GE(static_cast<double>(last - sorted.begin()) / n, wanted - epsilon) << i;
    }
  }
}

TEST(DiscretizationTest, MistakesAreRefused) {
  const auto made = [](DiscretizationOptions options) {
    return message_of([&] { Discretization{options}; });
  };
  EXPECT_THAT(made({}), HasSubstr("Discretization: num_bins is 0"));
  EXPECT_THAT(message_of([] { Discretization({}); }), HasSubstr("num_bins is 0"));
  EXPECT_THAT(made({.bin_boundaries = {1}, .num_bins = 3}), HasSubstr("num_bins is 3"));
  EXPECT_THAT(made({.bin_boundaries = {1, 3, 2}}), HasSubstr("has 2 after 3"));
  EXPECT_THAT(made({.num_bins = 3, .epsilon = 1}), HasSubstr("epsilon is 1"));
  EXPECT_THAT(made({.num_bins = 3, .output_mode = OutputMode::kTfIdf}),
              HasSubstr("output_mode is kTfIdf"));
  EXPECT_THAT(message_of([] { Discretization({.num_bins = 3})(torch::ones({2})); }),
              HasSubstr("no boundaries yet"));
  EXPECT_THAT(
      message_of([] { (void)Discretization({.bin_boundaries = {1}}).adapt(torch::ones({2})); }),
      HasSubstr("already"));
  EXPECT_THAT(message_of([] { (void)Discretization({.num_bins = 3}).adapt(torch::ones({0})); }),
              HasSubstr("no numbers"));
}

}  // namespace
}  // namespace muster::inline v0_1
