#include "apps/train/partial_dependence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/tensor/libtorch.h"

namespace muster::app {
namespace {

using ::testing::ElementsAre;

TEST(PartialDependence, IsTheMeanPredictionWithTheOtherColumnsAsTheyAre) {
  TablePlan plan;
  plan.columns.push_back({.name = "x", .kind = ColumnKind::kNumber});
  plan.columns.push_back({.name = "c", .kind = ColumnKind::kCategory, .words = {"a", "b"}});
  EncodedTable rows{.rows = 4};
  rows.features["x"] = torch::tensor({1.0F, 3.0F, std::numeric_limits<float>::quiet_NaN(), 3.0F});
  rows.features["c"] = torch::tensor({1, 1, 0, 1}, at::kLong);
  rows.labels = torch::zeros({4});
  rows.weights = torch::tensor({1.0F, 0.0F, 1.0F, 0.0F});
  // y = 10 x + 100 c: with x given, c is 1 and 0 in the rows that count, 50 on average.
  const auto predict = [](const EncodedTable& table) {
    return torch::nan_to_num(table.features.at("x")) * 10 + table.features.at("c") * 100;
  };
  const Report::Table numbers = partial_dependence(plan, rows, {"x"}, predict);
  EXPECT_THAT(numbers.rows,
              ElementsAre(ElementsAre("x", "1", "", "60"), ElementsAre("x", "3", "", "80")));
  // x is 1 and missing (0): 5 on average. The more frequent category is first.
  const Report::Table words = partial_dependence(plan, rows, {"c"}, predict);
  EXPECT_THAT(words.rows,
              ElementsAre(ElementsAre("c", "b", "", "105"), ElementsAre("c", "a", "", "5")));
  plan.classes = {"no", "yes"};
  const auto classify = [&](const EncodedTable& table) {
    const Tensor yes = torch::nan_to_num(table.features.at("x")) / 4;
    return torch::stack({1 - yes, yes}, 1);
  };
  const Report::Table classes = partial_dependence(plan, rows, {"x", "unknown"}, classify);
  EXPECT_THAT(classes.rows, ElementsAre(ElementsAre("x", "1", "yes", "0.25"),
                                        ElementsAre("x", "3", "yes", "0.75")));
}

}  // namespace
}  // namespace muster::app
