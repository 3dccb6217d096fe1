#include "muster/layers/activation_layers.h"

#include <gtest/gtest.h>

#include <cmath>

#include "muster/layers/internal/test_gradients.h"
#include "muster/layers/internal/test_layers.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using testing::Fixture;
using testing::numbers;

TEST(ActivationLayers, AreTheFunctionsUnderKerasNames) {
  Fixture fixture;
  const Tensor x = numbers({3, 4}) * 4;
  const auto same = [&](const Layer& layer, const Activation& activation, const char* name) {
    EXPECT_TRUE(layer(x, fixture.context).equal(activation(x))) << name;
    EXPECT_EQ(fixture.context.name_of(layer.impl().identity()), name);
  };
  namespace a = activations;
  same(ActivationLayer(activation("gelu")), a::gelu, "activation");
  same(ReLU(), a::relu, "re_lu");
  same(ReLU({.max_value = 2, .negative_slope = 0.1, .threshold = 0.5}),
       a::relu({.max_value = 2, .negative_slope = 0.1, .threshold = 0.5}), "re_lu_1");
  same(LeakyReLU(), a::leaky_relu({.alpha = 0.3}), "leaky_re_lu");
  same(ELU(0.5), a::elu({.alpha = 0.5}), "elu");
  same(ThresholdedReLU(), a::relu(a::ReluOptions{.threshold = 1}), "thresholded_re_lu");
  same(Softmax(1), a::softmax, "softmax");
  EXPECT_TRUE(fixture.store.variables().empty());
}

TEST(PReLU, LearnsASlopeForEachElementOrSharedAxes) {
  Fixture fixture;
  const Layer layer = PReLU({.alpha_initializer = initializers::random_uniform(0.1, 0.5)});
  const Tensor x = numbers({2, 3, 4});
  const Tensor y = layer(x, fixture.context);
  const Tensor& alpha = fixture.store.value("p_re_lu/alpha");
  ASSERT_EQ(alpha.sizes(), (std::vector<int64_t>{3, 4}));
  for (int64_t i = 0; i < 24; ++i) {
    const double value = x.view(-1)[i].item<double>();
    const double slope = alpha.view(-1)[i % 12].item<double>();
    EXPECT_NEAR(y.view(-1)[i].item<double>(), value > 0 ? value : slope * value, 1e-15);
  }
  const Layer shared = PReLU({.shared_axes = {1, 2}});
  const Tensor images = numbers({2, 3, 5, 4});
  EXPECT_TRUE(shared(images, fixture.context).equal(torch::relu(images))) << "alpha begins with 0";
  EXPECT_EQ(fixture.store.value("p_re_lu_1/alpha").sizes(), (std::vector<int64_t>{1, 1, 4}));
  shared(numbers({2, 7, 6, 4}), fixture.context);
  testing::check_gradients(PReLU({.alpha_initializer = initializers::constant(0.2)}),
                           numbers({3, 5}));
  EXPECT_EQ(message_of([&] {
              layer(numbers({2, 3, 5}), fixture.context);
            }),
            "layer p_re_lu: expected examples for the alpha float64[3, 4], was given "
            "float64[2, 3, 5]");
  EXPECT_EQ(message_of([&] {
              shared(numbers({2, 3}), fixture.context);
            }),
            "layer p_re_lu_1: shared_axes is 2, of the input float64[2, 3]");
  EXPECT_EQ(message_of([] { PReLU({.shared_axes = {0}}); }), "PReLU: shared_axes is 0");
}

TEST(SoftmaxLayer, LeavesOutWhatAMaskKeepsOut) {
  Fixture fixture;
  const Tensor scores = numbers({2, 4});
  const Tensor mask = torch::tensor({1, 1, 0, 1, 0, 1, 1, 0}).view({2, 4}).to(at::kBool);
  const LayerOutputs out =
      Softmax()(LayerInputs{.tensors = {scores}, .masks = {mask}}, fixture.context);
  const Tensor powers = scores.exp() * mask.to(at::kDouble);
  EXPECT_TRUE(torch::allclose(out.tensors[0], powers / powers.sum(1, true), 1e-6, 1e-12));
  EXPECT_TRUE(out.masks[0].equal(mask));
  // A mask of steps does not reach the classes.
  const Tensor steps = numbers({2, 4, 3});
  EXPECT_TRUE(Softmax()(LayerInputs{.tensors = {steps}, .masks = {mask}}, fixture.context)
                  .tensors[0]
                  .equal(torch::softmax(steps, -1)));
}

TEST(ActivationLayers, RefuseWhatKerasRefuses) {
  Fixture fixture;
  EXPECT_EQ(message_of([] { ReLU({.max_value = -1}); }), "ReLU: max_value is -1");
  EXPECT_EQ(message_of([] { ReLU(ReLUOptions{.negative_slope = -1}); }),
            "ReLU: negative_slope is -1");
  EXPECT_EQ(message_of([] { ReLU(ReLUOptions{.threshold = -2}); }), "ReLU: threshold is -2");
  EXPECT_EQ(message_of([] { LeakyReLU(-0.1); }), "LeakyReLU: alpha is -0.1");
  EXPECT_EQ(message_of([] { ThresholdedReLU(-1); }), "ThresholdedReLU: theta is -1");
  EXPECT_EQ(message_of([&] {
              Softmax(2)(numbers({2, 3}), fixture.context);
            }),
            "layer softmax: axis is 2, of the input float64[2, 3]");
  EXPECT_EQ(message_of([&] {
              ReLU()(torch::ones({2, 3}, at::kLong), fixture.context);
            }),
            "layer re_lu: expected an input of a floating dtype, was given int64[2, 3]");
  const Tensor mask = torch::ones({2, 3}, at::kBool);
  EXPECT_EQ(message_of([&] {
              ActivationLayer(activations::softmax({.axis = 1}))(
                  LayerInputs{.tensors = {numbers({2, 3, 4})}, .masks = {mask}}, fixture.context);
            }),
            "layer activation: was given a mask, which it cannot take");
}

}  // namespace
}  // namespace muster::inline v0_1
