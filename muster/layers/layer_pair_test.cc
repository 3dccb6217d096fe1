// Two layers that run as one give the same as one after the other: values and gradients.
#include "muster/layers/internal/layer_pair.h"

#include <gtest/gtest.h>

#include "muster/layers/activation_layers.h"
#include "muster/layers/batch_normalization.h"
#include "muster/layers/functional.h"
#include "muster/layers/internal/test_layers.h"
#include "muster/layers/merge.h"
#include "muster/layers/padding.h"
#include "muster/layers/pooling.h"

namespace muster::inline v0_1 {
namespace {

using internal::LayerPair;
using testing::Fixture;
using testing::numbers;

Layer relu() { return ActivationLayer(activations::relu, "relu"); }

// The outputs, and the gradients of their products with numbers by the inputs.
std::vector<Tensor> outcome(const std::vector<Tensor>& inputs,
                            const std::function<Tensor(const LayerInputs&, CallContext&)>& call,
                            bool trains) {
  Fixture fixture;
  fixture.context.begin_step(trains, 0, 0);
  LayerInputs leaves;
  for (const Tensor& input : inputs)
    leaves.tensors.push_back(input.clone().set_requires_grad(true));
  const Tensor output = call(leaves, fixture.context);
  (output * numbers(output.sizes(), 0.7)).sum().backward();
  std::vector<Tensor> all{output.detach()};
  for (const Tensor& leaf : leaves.tensors) all.push_back(leaf.grad());
  for (const auto& variable : fixture.store.variables()) all.push_back(variable->value().detach());
  return all;
}

void expect_one_after_the_other(const Layer& first, const Layer& second,
                                const std::vector<Tensor>& inputs) {
  const LayerPair pair(first.impl(), second.impl());
  ASSERT_TRUE(pair);
  for (const bool trains : {true, false}) {
    const auto together = outcome(
        inputs,
        [&](const LayerInputs& given, CallContext& context) {
          return pair.call(given, context).tensors[0];
        },
        trains);
    const auto apart = outcome(
        inputs,
        [&](const LayerInputs& given, CallContext& context) {
          LayerInputs between;
          between.tensors = first(given, context).tensors;
          return second(between, context).tensors[0];
        },
        trains);
    ASSERT_EQ(together.size(), apart.size());
    for (size_t i = 0; i < apart.size(); ++i)
      EXPECT_TRUE(torch::allclose(together[i], apart[i], 1e-12, 1e-12)) << i << trains;
  }
}

TEST(LayerPair, ANormalizationAndRelu) {
  expect_one_after_the_other(BatchNormalization(), relu(), {numbers({5, 4, 3, 6})});
  expect_one_after_the_other(BatchNormalization({.center = false, .scale = false}), relu(),
                             {numbers({7, 6})});
}

TEST(LayerPair, ASumAndRelu) {
  expect_one_after_the_other(Add(), relu(), {numbers({5, 3}), numbers({5, 3}, 0.9)});
  expect_one_after_the_other(Add(), relu(), {numbers({5, 3}), numbers({5, 1}, 0.9)});
  // A tensor that is passed through unchanged is not written to.
  const Tensor alone = numbers({5, 3});
  const Tensor before = alone.clone();
  expect_one_after_the_other(Add(), relu(), {alone});
  Fixture fixture;
  const Layer sum = Add(), behind = relu();
  LayerPair(sum.impl(), behind.impl()).call({.tensors = {alone}}, fixture.context);
  EXPECT_TRUE(alone.equal(before));
}

TEST(LayerPair, ZerosAroundImagesAndTheLargestOfAWindow) {
  const Layer pool = MaxPooling2D({.pool_size = 3, .strides = Size2D(2)});
  const Tensor images = numbers({2, 6, 7, 3});
  for (const Tensor& each : {images, images.abs(), -images.abs()})
    expect_one_after_the_other(ZeroPadding2D(1), pool, {each});
  // A size that does not fit gives the same error as without the padding.
  Fixture fixture;
  const Layer large = MaxPooling2D({.pool_size = 5}), one = ZeroPadding2D(1);
  EXPECT_NE(std::string(error_of([&] {
                          LayerPair(one.impl(), large.impl())
                              .call({.tensors = {numbers({1, 2, 2, 3})}}, fixture.context);
                        }).what())
                .find("layer max_pooling2d: expected images"),
            std::string::npos);
  // A window that would hold zeros alone is none for LibTorch.
  const Layer zeros = ZeroPadding2D(2);
  EXPECT_FALSE(LayerPair(zeros.impl(), pool.impl()));
}

TEST(LayerPair, OthersStayApart) {
  const Layer normalization = BatchNormalization(), tanh = ActivationLayer(activations::tanh, "t");
  EXPECT_FALSE(LayerPair(normalization.impl(), tanh.impl()));
  EXPECT_FALSE(LayerPair(tanh.impl(), tanh.impl()));
}

}  // namespace
}  // namespace muster::inline v0_1
