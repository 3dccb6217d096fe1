// A convolution and the normalization behind it run as one where nothing trains, and give what they
// give one after the other.
#include "muster/layers/internal/layer_run.h"

#include <gtest/gtest.h>

#include "muster/layers/activation_layers.h"
#include "muster/layers/convolution.h"
#include "muster/layers/core.h"
#include "muster/layers/functional.h"
#include "muster/layers/internal/test_layers.h"
#include "muster/layers/merge.h"
#include "muster/layers/mixed_precision.h"
#include "muster/layers/normalization.h"
#include "muster/layers/padding.h"
#include "muster/layers/regularizers.h"

namespace muster::inline v0_1 {
namespace {

using internal::LayerRun;
using testing::Fixture;
using testing::numbers;

Tensor images(double phase = 0.3) { return numbers({3, 7, 6, 4}, phase).to(kFloat32); }

// All weights away from what they begin with.
void stir(Fixture& fixture) {
  const torch::NoGradGuard no_grad;
  double phase = 0.1;
  for (const auto& variable : fixture.store.variables()) {
    const Tensor& value = variable->value();
    Tensor other = numbers(value.sizes(), phase += 0.37).to(value.scalar_type());
    if (variable->name().ends_with("variance")) other = other.abs() + 0.2;
    value.copy_(other);
  }
}

LayerRun run_of(const std::vector<Layer>& layers) {
  std::vector<const LayerImpl*> impls;
  for (const Layer& layer : layers) impls.push_back(&layer.impl());
  return LayerRun(impls);
}

Tensor one_after_the_other(const std::vector<Layer>& layers, Tensor x, CallContext& context) {
  for (const Layer& layer : layers) x = layer(x, context);
  return x;
}

// To 1e-5 of the largest number: what is added up in another order differs by that of its parts.
void expect_close(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.sizes(), b.sizes());
  EXPECT_LE((a - b).abs().max().item<double>(), 1e-5 * b.abs().max().item<double>());
}

// Whether a call of `layer` has made a kernel for the normalization.
bool folds(Fixture& fixture, const Layer& normalization) {
  return fixture.context.folded_kernel(normalization.impl().identity()) != nullptr;
}

Layer relu() { return ActivationLayer(activations::relu); }

TEST(LayerRun, FoldedLayersGiveWhatTheyGiveOneAfterTheOther) {
  const Layer normalization = BatchNormalization({.epsilon = 1e-3});
  const std::vector<std::vector<Layer>> rows{
      {Conv2D(5, 3), normalization},
      {Conv2D(5, 3, {.padding = Padding::kSame}), normalization, relu()},
      {Conv2D(8, 1, {.strides = 2, .groups = 2, .use_bias = false}), normalization},
      {ZeroPadding2D(1), Conv2D(5, 3, {.strides = 2}), normalization, relu()},
      {Conv2D(5, 3), BatchNormalization({.center = false, .scale = false}), relu()},
  };
  for (const auto& layers : rows) {
    const torch::NoGradGuard no_grad;
    Fixture fixture;
    const LayerRun run = run_of(layers);
    ASSERT_EQ(run.size(), layers.size());
    one_after_the_other(layers, images(), fixture.context);
    stir(fixture);
    const Tensor apart = one_after_the_other(layers, images(), fixture.context);
    expect_close(run.call({.tensors = {images()}}, fixture.context).tensors.at(0), apart);
    expect_close(Sequential(layers)(images(), fixture.context), apart);
  }
}

TEST(LayerRun, AFoldedKernelFollowsItsWeights) {
  const torch::NoGradGuard no_grad;
  Fixture fixture;
  const std::vector<Layer> layers{Conv2D(5, 3), BatchNormalization(), relu()};
  const LayerRun run = run_of(layers);
  const auto together = [&] {
    return run.call({.tensors = {images()}}, fixture.context).tensors.at(0);
  };
  const auto apart = [&] { return one_after_the_other(layers, images(), fixture.context); };
  together();
  const auto kernel = [&] {
    return fixture.context.folded_kernel(layers[1].impl().identity())->kernel().data_ptr();
  };
  stir(fixture);
  expect_close(together(), apart());
  const void* before = kernel();
  together();
  EXPECT_EQ(kernel(), before) << "nothing was written";
  for (const auto& variable : fixture.store.variables()) {
    variable->value().mul_(1.25);
    expect_close(together(), apart());
    // Through a view, as optimizers write; and with memory of its own.
    variable->value().view({-1}).slice(0, 0, 2).add_(0.5);
    expect_close(together(), apart());
    variable->value().set_data(variable->value() * 0.75);
    expect_close(together(), apart());
    variable->value() = variable->value() + 0.125;
    expect_close(together(), apart());
  }
}

TEST(LayerRun, IsNotFoldedWhereOneNeedsTheOther) {
  const Layer conv = Conv2D(5, 3), normalization = BatchNormalization();
  const Layer model = Sequential({conv, normalization, relu()});
  Fixture fixture;
  {
    const torch::NoGradGuard no_grad;
    fixture.context.begin_step(/*training=*/true, 0, 0);
    model(images(), fixture.context);
    EXPECT_FALSE(folds(fixture, normalization)) << "training";
    fixture.context.begin_step(false, 0, 0);
    mixed_precision("bfloat16", model)(images(), fixture.context);
    EXPECT_FALSE(folds(fixture, normalization)) << "mixed precision";
    model(images().slice(0, 0, 0), fixture.context);
    EXPECT_FALSE(folds(fixture, normalization)) << "no rows";
  }
  model(images(), fixture.context).sum().backward();
  EXPECT_FALSE(folds(fixture, normalization)) << "gradients";
  EXPECT_TRUE(fixture.store.value("conv2d/kernel").grad().defined());
  const torch::NoGradGuard no_grad;
  model(images(), fixture.context);
  EXPECT_TRUE(folds(fixture, normalization));
  fixture.context.begin_step(true, 1, 0);
  EXPECT_FALSE(folds(fixture, normalization)) << "a step that trains lets it go";
}

TEST(LayerRun, FoldingLeavesVariablesAlone) {
  const std::vector<Layer> layers{ZeroPadding2D(1), Conv2D(5, 3), BatchNormalization(), relu()};
  const torch::NoGradGuard no_grad;
  Fixture apart, together;
  one_after_the_other(layers, images(), apart.context);
  Sequential(layers)(images(), together.context);
  ASSERT_TRUE(folds(together, layers[2]));
  EXPECT_EQ(together.store.names(), apart.store.names());
  for (const std::string& name : apart.store.names()) {
    EXPECT_TRUE(together.store.value(name).equal(apart.store.value(name))) << name;
    EXPECT_EQ(together.store.value(name).requires_grad(), apart.store.value(name).requires_grad());
  }
}

TEST(LayerRun, WhatIsUsedElsewhereInAGraphIsGiven) {
  const Layer conv = Conv2D(4, 3, {.padding = Padding::kSame}),
              normalization = BatchNormalization();
  const SymbolicTensor input = Input({7, 6, 4});
  const SymbolicTensor between = conv(input);
  const SymbolicTensor behind = normalization(between);
  const torch::NoGradGuard no_grad;
  for (const Functional& model :
       {Functional({input}, {Add()({between, behind})}), Functional({input}, {between, behind})}) {
    Fixture fixture;
    model({.tensors = {images()}}, fixture.context);
    stir(fixture);
    const LayerOutputs outputs = model({.tensors = {images()}}, fixture.context);
    EXPECT_FALSE(folds(fixture, normalization));
    const Tensor first = conv(images(), fixture.context);
    const Tensor second = normalization(first, fixture.context);
    expect_close(outputs.tensors.at(0), outputs.tensors.size() == 1 ? first + second : first);
  }
  const Functional chain({input}, {relu()(behind)});
  Fixture fixture;
  chain({.tensors = {images()}}, fixture.context);
  EXPECT_TRUE(folds(fixture, normalization));
}

TEST(LayerRun, OthersStayApart) {
  const Layer normalization = BatchNormalization();
  EXPECT_FALSE(run_of({Conv2D(5, 3, {.activation = activations::relu}), normalization}));
  EXPECT_FALSE(
      run_of({Conv2D(5, 3, {.activity_regularizer = regularizers::l2(0.1)}), normalization}));
  EXPECT_FALSE(run_of({Conv2D(5, 3), relu()}));
  EXPECT_FALSE(run_of({Conv2D(5, 3)}));
  // Their own pairs they are all the same.
  EXPECT_EQ(run_of({normalization, relu()}).size(), 2U);
  EXPECT_EQ(run_of({ZeroPadding2D(1), Conv2D(5, 3), relu()}).size(), 2U);
}

}  // namespace
}  // namespace muster::inline v0_1
