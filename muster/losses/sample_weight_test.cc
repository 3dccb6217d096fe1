#include "muster/losses/sample_weight.h"

#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::losses {
namespace {

// The weighted losses [2, 3] of 1 to 6.
std::vector<double> weighted(const Tensor& weights) {
  const Tensor losses = torch::arange(1, 7, at::kDouble).view({2, 3});
  const Tensor result = compute_weighted_loss(losses, weights, Reduction::kNone);
  EXPECT_EQ(result.sizes(), losses.sizes());
  EXPECT_EQ(result.scalar_type(), at::kDouble);
  return {result.data_ptr<double>(), result.data_ptr<double>() + result.numel()};
}

TEST(ComputeWeightedLoss, TakesWeightsOfTheRulesOfKeras) {
  using Numbers = std::vector<double>;
  EXPECT_EQ(weighted({}), (Numbers{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(weighted(torch::tensor(2)), (Numbers{2, 4, 6, 8, 10, 12}));
  EXPECT_EQ(weighted(torch::tensor({10, 1})), (Numbers{10, 20, 30, 4, 5, 6}));
  EXPECT_EQ(weighted(torch::tensor({{10.0f}, {1.0f}})), (Numbers{10, 20, 30, 4, 5, 6}));
  EXPECT_EQ(weighted(torch::tensor({{1, 2, 0}})), (Numbers{1, 4, 0, 4, 10, 0}));
  const Tensor each = torch::tensor({{1, 0, 1}, {0, 2, 0}});
  EXPECT_EQ(weighted(each), (Numbers{1, 0, 3, 0, 10, 0}));
  EXPECT_EQ(weighted(each.unsqueeze(-1)), (Numbers{1, 0, 3, 0, 10, 0}));
  EXPECT_EQ(weighted(each.to(at::kBool)), (Numbers{1, 0, 3, 0, 5, 0}));
}

TEST(ComputeWeightedLoss, RefusesOthersAndShowsBothShapes) {
  const Tensor losses = torch::zeros({2, 3});
  for (const Shape& shape : {Shape{3}, Shape{2, 2}, Shape{4, 3}, Shape{2, 3, 2}, Shape{2, 1, 1, 1}})
    EXPECT_EQ(message_of([&] { compute_weighted_loss(losses, torch::ones(shape)); }),
              "sample_weight float32" + describe(shape) + " does not fit losses float32[2, 3]");
  // Weights never make more losses than there are.
  message_of([] { compute_weighted_loss(torch::zeros({1}), torch::ones({3})); });
}

TEST(ComputeWeightedLoss, TakesNegativeWeights) {
  const Tensor losses = torch::tensor({1.0, 2.0}), advantages = torch::tensor({-1.0, 3.0});
  EXPECT_EQ(compute_weighted_loss(losses, advantages, Reduction::kSum).item<double>(), 5);
}

TEST(ComputeWeightedLoss, TheMeanDividesByTheNumberOfLosses) {
  const Tensor losses = torch::tensor({1.0, 2.0, 6.0}, at::kDouble);
  const Tensor weights = torch::tensor({0.0, 1.0, 0.5});
  EXPECT_DOUBLE_EQ(compute_weighted_loss(losses, weights).item<double>(), 5.0 / 3);
  EXPECT_DOUBLE_EQ(compute_weighted_loss(losses, weights, Reduction::kSum).item<double>(), 5);
}

}  // namespace
}  // namespace muster::inline v0_1::losses
