#include "muster/losses/class_weights.h"

#include <gtest/gtest.h>

#include <limits>

#include "muster/base/error_of.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::losses {
namespace {

TEST(ClassWeights, GiveEachExampleTheWeightOfItsClass) {
  const std::vector<double> table = {1, 0.5, 8};
  const Tensor expected = torch::tensor({8.0f, 1.0f, 0.5f, 8.0f});
  const Tensor numbers = torch::tensor({2, 0, 1, 2});
  for (const auto dtype : {at::kByte, at::kInt, at::kLong, at::kFloat}) {
    EXPECT_TRUE(class_weights(numbers.to(dtype), table).equal(expected));
    EXPECT_TRUE(class_weights(numbers.to(dtype).unsqueeze(1), table).equal(expected));
  }
  const Tensor one_hot = torch::tensor({{0, 0, 1}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}});
  EXPECT_TRUE(class_weights(one_hot, table).equal(expected));
  EXPECT_TRUE(class_weights(one_hot.to(at::kFloat) * 0.9, table).equal(expected));
  EXPECT_EQ(class_weights(torch::zeros({0}, at::kLong), table).sizes(), Shape{0});
}

TEST(ClassWeights, TakesSmoothedLabels) {
  const Tensor smoothed = torch::tensor({{0.05, 0.9, 0.05}, {0.9, 0.05, 0.05}});
  EXPECT_TRUE(class_weights(smoothed, {1, 0.5, 8}).equal(torch::tensor({0.5f, 1.0f})));
  EXPECT_EQ(class_weights(torch::zeros({0, 3}), {1, 2, 3}).sizes(), Shape{0});
}

TEST(ClassWeights, RefusesRowsThatSayNoClassOrSeveral) {
  const std::vector<double> table = {1, 10, 100};
  const auto said = [&](std::vector<float> row) {
    const Tensor rows = torch::stack({torch::tensor({0.f, 0.f, 1.f}), torch::tensor(row)});
    return message_of([&] { class_weights(rows, table); });
  };
  EXPECT_EQ(said({1, 1, 0}),
            "class_weights: the labels of row 1 are [1, 1, 0], which say no class, or several");
  EXPECT_EQ(said({0, 0, 0}),
            "class_weights: the labels of row 1 are [0, 0, 0], which say no class, or several");
  said({1, 1, 1});
  said({0.75f, 0.25f, 0});  // a mixture
  said({0, 0, 2});          // a sequence of class numbers
  said({std::numeric_limits<float>::quiet_NaN(), 0, 0});
}

TEST(ClassWeights, NamesTheLabelThatIsNoClass) {
  const std::vector<double> table = {1, 2};
  EXPECT_EQ(message_of([&] {
              class_weights(torch::tensor({0, 1, 2, 5}), table);
            }),
            "class_weights: the label of row 2 is 2, no class of [0, 2)");
  EXPECT_EQ(message_of([&] {
              class_weights(torch::tensor({1.0, 0.5}), table);
            }),
            "class_weights: the label of row 1 is 0.5, no class of [0, 2)");
  EXPECT_EQ(message_of([&] {
              class_weights(torch::tensor({{-1}, {0}}), table);
            }),
            "class_weights: the label of row 0 is -1, no class of [0, 2)");
}

TEST(ClassWeights, RefusesWhatDoesNotFit) {
  EXPECT_EQ(message_of([] {
              class_weights(torch::zeros({4, 3}), {1, 2});
            }),
            "class_weights: labels float32[4, 3] do not fit a table of 2 classes");
  EXPECT_EQ(message_of([] {
              class_weights(torch::zeros({4, 2, 2}), {1, 2});
            }),
            "class_weights: labels float32[4, 2, 2] do not fit a table of 2 classes");
  EXPECT_EQ(message_of([] { class_weights(torch::zeros({4}), {}); }),
            "class_weights: class_weight is empty");
  EXPECT_EQ(message_of([] {
              class_weights(torch::zeros({4}), {1, -2});
            }),
            "class_weights: the weight of class 1 is -2; it must be finite and 0 or more");
  message_of([] { class_weights(torch::zeros({4}), {std::numeric_limits<double>::infinity()}); });
  EXPECT_EQ(message_of([] {
              class_weights({}, {1, 2});
            }),
            "class_weights: the labels are undefined");
}

}  // namespace
}  // namespace muster::inline v0_1::losses
