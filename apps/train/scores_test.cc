#include "apps/train/scores.h"

#include <gtest/gtest.h>

#include <cmath>

#include "muster/tensor/libtorch.h"

namespace muster::app {
namespace {

Tensor two(const std::vector<float>& p) {
  const Tensor one = torch::tensor(p);
  return torch::stack({1 - one, one}, 1);
}

TEST(ScoresTest, TwoClasses) {
  const Tensor p = two({0.1F, 0.4F, 0.35F, 0.8F});
  const Metrics metrics = class_metrics(p, {torch::tensor({0, 0, 1, 1}, kInt64), {}});
  EXPECT_NEAR(metrics.at("accuracy"), 0.75, 1e-12);
  EXPECT_NEAR(metrics.at("auc"), 0.75, 1e-12);  // 3 of 4 pairs
  EXPECT_NEAR(metrics.at("precision"), 1, 1e-12);
  EXPECT_NEAR(metrics.at("recall"), 0.5, 1e-12);
  EXPECT_NEAR(metrics.at("log_loss"),
              -(std::log(0.9) + std::log(0.6) + std::log(0.35) + std::log(0.8)) / 4, 1e-6);
}

TEST(ScoresTest, AWeightIsSoManyRows) {
  const Tensor p = two({0.2F, 0.7F, 0.7F, 0.3F});
  const Tensor labels = torch::tensor({0, 1, 0, 1}, kInt64);
  const Tensor weights = torch::tensor({1, 3, 2, 1}, kFloat32);
  const Tensor places = torch::tensor({0, 1, 1, 1, 2, 2, 3}, kInt64);
  const Metrics weighted = class_metrics(p, {labels, weights});
  const Metrics repeated =
      class_metrics(p.index_select(0, places), {labels.index_select(0, places), {}});
  for (const auto& [name, value] : repeated) EXPECT_NEAR(weighted.at(name), value, 1e-12) << name;
  const Tensor numbers = torch::tensor({1, 2, 4, 8}, kFloat32), said = torch::ones({4});
  const Metrics some = number_metrics(said, {numbers, weights});
  for (const auto& [name, value] :
       number_metrics(said.index_select(0, places), {numbers.index_select(0, places), {}}))
    EXPECT_NEAR(some.at(name), value, 1e-12) << name;
}

TEST(ScoresTest, UndefinedScoresAreNaN) {
  const Metrics metrics = class_metrics(two({0.1F, 0.2F}), {torch::zeros({2}, kInt64), {}});
  EXPECT_TRUE(std::isnan(metrics.at("auc")));
  EXPECT_TRUE(std::isnan(metrics.at("precision")));
  EXPECT_EQ(metrics.at("accuracy"), 1);
}

TEST(ScoresTest, SeveralClasses) {
  const Tensor p =
      torch::tensor({0.5, 0.3, 0.2, 0.1, 0.2, 0.7, 0.2, 0.6, 0.2}, kFloat32).reshape({3, 3});
  const Tensor labels = torch::tensor({0, 1, 1}, kInt64);
  const Metrics metrics = class_metrics(p, {labels, {}});
  EXPECT_EQ(metrics.size(), 2u);
  EXPECT_NEAR(metrics.at("accuracy"), 2.0 / 3, 1e-12);
  EXPECT_TRUE(torch::equal(confusion(p, labels),
                           torch::tensor({1, 0, 0, 0, 1, 1, 0, 0, 0}, kInt64).reshape({3, 3})));
  EXPECT_TRUE(torch::allclose(class_shares(labels, {}, 3),
                              torch::tensor({1.0 / 3, 2.0 / 3, 0.0}, kFloat64)));
}

TEST(ScoresTest, CalibrationCountsTheRowsOfABin) {
  const auto bins =
      calibration(two({0.05F, 0.5F, 0.55F, 1.0F}), {torch::tensor({0, 1, 0, 1}, kInt64), {}});
  ASSERT_EQ(bins.size(), 10u);
  EXPECT_EQ(bins[0].rows, 1);
  EXPECT_EQ(bins[5].rows, 2);
  EXPECT_NEAR(bins[5].mean_prediction, 0.525, 1e-6);
  EXPECT_NEAR(bins[5].observed, 0.5, 1e-12);
  EXPECT_EQ(bins[9].rows, 1);
  EXPECT_EQ(bins[3].rows, 0);
  EXPECT_TRUE(std::isnan(bins[3].observed));
}

TEST(ScoresTest, Numbers) {
  const Tensor labels = torch::tensor({1, 2, 3}, kFloat32),
               said = torch::tensor({1, 3, 5}, kFloat32);
  const Metrics metrics = number_metrics(said, {labels, {}});
  EXPECT_NEAR(metrics.at("rmse"), std::sqrt(5.0 / 3), 1e-12);
  EXPECT_NEAR(metrics.at("mae"), 1, 1e-12);
  EXPECT_NEAR(metrics.at("r2"), 1 - 5.0 / 2, 1e-12);
  const auto quantiles = residual_quantiles(said, labels);
  ASSERT_EQ(quantiles.size(), 7u);
  EXPECT_EQ(quantiles[0], (std::pair{0.0, -2.0}));
  EXPECT_EQ(quantiles[2], (std::pair{0.25, -1.5}));
  EXPECT_EQ(quantiles[3], (std::pair{0.5, -1.0}));
  EXPECT_EQ(quantiles[6], (std::pair{1.0, 0.0}));
}

}  // namespace
}  // namespace muster::app
