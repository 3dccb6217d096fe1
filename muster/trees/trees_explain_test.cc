#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/permutation_importance.h"
#include "muster/trees/boosted_trees.h"
#include "muster/trees/internal/test_rows.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::HasSubstr;
using testing::test_rows;
using testing::trees_config;

TEST(ExplainTreesTest, CountsWhatTheTreesHold) {
  const TempDirectory directory;
  BoostedTreesRegressor model({.weight_column = "weight", .n_trees = 8, .max_depth = 3},
                              trees_config(directory.path()));
  EXPECT_THAT(error_of([&] { (void)model.explain(); }).what(), HasSubstr("NotFound"));
  model.train([] { return test_rows(400, 0).dataset(); });
  const Explanation all = model.explain();
  EXPECT_EQ(all.measures, (std::vector<std::string>{"gain", "share", "splits"}));
  double splits = 0, share = 0;
  int64_t nodes = 0;
  for (const trees::Tree& tree : model.ensemble().trees) {
    for (const trees::Node& node : tree.nodes) nodes += node.feature >= 0 ? 1 : 0;
  }
  const auto importances = model.feature_importances();
  ASSERT_EQ(all.rows.size(), importances.size());
  for (size_t i = 0; i < all.rows.size(); ++i) {
    EXPECT_EQ(all.rows[i].column, importances[i].first);
    EXPECT_EQ(all.rows[i].numbers[0], importances[i].second);
    share += all.rows[i].numbers[1];
    splits += all.rows[i].numbers[2];
  }
  EXPECT_NEAR(share, 1, 1e-12);
  EXPECT_EQ(splits, static_cast<double>(nodes));
}

// y = x[0] x[1] + 0.3 x[2] + ... and so on, where "weight" is in no tree.
TEST(ExplainTreesTest, ShufflingTellsWhatTheyAsk) {
  const TempDirectory directory;
  BoostedTreesRegressor model({.n_trees = 20, .max_depth = 4, .feature_names = {"kind", "x"}},
                              trees_config(directory.path()));
  const auto data = [] { return test_rows(500, 0).dataset(); };
  model.train(data);
  const Explanation all =
      permutation_importance([&](const InputFn& input) { return model.evaluate(input); }, data,
                             {.metric = "average_loss", .repeats = 3});
  ASSERT_EQ(all.rows.size(), 3u);
  EXPECT_EQ(all.rows[0].column, "x");
  EXPECT_EQ(all.rows[1].column, "kind");
  EXPECT_GT(all.rows[1].numbers[0], 0);
  EXPECT_EQ(all.rows[2].column, "weight");
  EXPECT_EQ(all.rows[2].numbers[0], 0);
  EXPECT_EQ(all.rows[2].numbers[1], 0);
}

}  // namespace
}  // namespace muster::inline v0_1
