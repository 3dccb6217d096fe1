#include "muster/train/optimizer_tensors.h"

#include <gtest/gtest.h>

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

TEST(OptimizerTensorsTest, ACounterIsAnIntegerScalarOfThatName) {
  const Tensor counter = torch::zeros({}, at::kLong);
  EXPECT_EQ(optimizer_of_counter("gan/Adam/iterations", counter), "gan/Adam");
  EXPECT_EQ(optimizer_of_counter("Adam/iteration", counter), std::nullopt);
  EXPECT_EQ(optimizer_of_counter("Adam/iterations", torch::zeros({1}, at::kLong)), std::nullopt);
  EXPECT_EQ(optimizer_of_counter("Adam/iterations", torch::zeros({})), std::nullopt);
}

// A layer may be called "average" as well.
TEST(OptimizerTensorsTest, AveragesOfOptimizersTakeThePlaceOfTheirWeights) {
  const auto number = [](double value) { return torch::full({}, value); };
  Checkpoint checkpoint{.tensors = {{"Adam/iterations", torch::zeros({}, at::kLong)},
                                    {"Adam/average/kernel", number(1)},
                                    {"kernel", number(2)},
                                    {"statistics", number(3)},
                                    {"net/average/kernel", number(4)},
                                    {"other/iterations", torch::zeros({}, at::kLong)},
                                    {"other/average/net/average/kernel", number(5)}}};
  use_moving_averages(checkpoint, "it");
  const auto at = [&](const char* name) { return checkpoint.tensors.at(name).item<double>(); };
  EXPECT_EQ(at("kernel"), 1);
  EXPECT_EQ(at("net/average/kernel"), 5);
  EXPECT_EQ(at("statistics"), 3);
  EXPECT_EQ(at("Adam/average/kernel"), 1);
  EXPECT_EQ(checkpoint.tensors.size(), 7u);
}

}  // namespace
}  // namespace muster::inline v0_1
