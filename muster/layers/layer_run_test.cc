// A convolution and the normalization after it run as one if nothing trains, and give the same as
// one after the other.
#include "muster/layers/internal/layer_run.h"

#include <gtest/gtest.h>

#include "muster/layers/activation_layers.h"
#include "muster/layers/batch_normalization.h"
#include "muster/layers/convolution.h"
#include "muster/layers/functional.h"
#include "muster/layers/internal/folded_convolution.h"
#include "muster/layers/internal/test_layers.h"
#include "muster/layers/merge.h"
#include "muster/layers/mixed_precision.h"
#include "muster/layers/padding.h"
#include "muster/layers/regularizers.h"
#include "muster/layers/sequential.h"

namespace muster::inline v0_1 {
namespace {

using internal::LayerRun;
using testing::Fixture;
using testing::numbers;

Tensor seen_images() { return numbers({3, 7, 6, 4}).to(kFloat32); }

// Moves all weights away from their initial values.
void stir_weights(Fixture& fixture) {
  const torch::NoGradGuard no_grad;
  double phase = 0.1;
  for (const auto& variable : fixture.store.variables()) {
    const Tensor& value = variable->value();
    Tensor other = numbers(value.sizes(), phase += 0.37).to(value.scalar_type());
    if (variable->name().ends_with("variance")) other = other.abs() + 0.2;
    value.copy_(other);
  }
}

LayerRun layer_run_of(const std::vector<Layer>& layers) {
  std::vector<const LayerImpl*> impls;
  for (const Layer& layer : layers) impls.push_back(&layer.impl());
  return LayerRun(impls);
}

Tensor called_in_turn(const std::vector<Layer>& layers, Tensor x, CallContext& context) {
  for (const Layer& layer : layers) x = layer(x, context);
  return x;
}

// To 1e-5 of the largest number: a sum in another order differs by the size of its parts.
void expect_near_all(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.sizes(), b.sizes());
  EXPECT_LE((a - b).abs().max().item<double>(), 1e-5 * b.abs().max().item<double>());
}

// Whether a call of `layer` has made a kernel for the normalization.
bool has_folded(Fixture& fixture, const Layer& normalization) {
  return internal::FoldedKernel::of(fixture.context, normalization.impl().identity()) != nullptr;
}

Layer relu_layer() { return ActivationLayer(activations::relu); }

TEST(LayerRun, FoldedLayersGiveWhatTheyGiveOneAfterTheOther) {
  const Layer normalization = BatchNormalization({.epsilon = 1e-3});
  const std::vector<std::vector<Layer>> rows{
      {Conv2D(5, 3), normalization},
      {Conv2D(5, 3, {.padding = Padding::kSame}), normalization, relu_layer()},
      {Conv2D(8, 1, {.strides = 2, .groups = 2, .use_bias = false}), normalization},
      {ZeroPadding2D(1), Conv2D(5, 3, {.strides = 2}), normalization, relu_layer()},
      {Conv2D(5, 3), BatchNormalization({.center = false, .scale = false}), relu_layer()},
  };
  for (const auto& layers : rows) {
    const torch::NoGradGuard no_grad;
    Fixture fixture;
    const LayerRun run = layer_run_of(layers);
    ASSERT_EQ(run.size(), layers.size());
    called_in_turn(layers, seen_images(), fixture.context);
    stir_weights(fixture);
    const Tensor apart = called_in_turn(layers, seen_images(), fixture.context);
    expect_near_all(run.call({.tensors = {seen_images()}}, fixture.context).tensors.at(0), apart);
    expect_near_all(Sequential(layers)(seen_images(), fixture.context), apart);
  }
}

TEST(LayerRun, AFoldedKernelFollowsItsWeights) {
  const torch::NoGradGuard no_grad;
  Fixture fixture;
  const std::vector<Layer> layers{Conv2D(5, 3), BatchNormalization(), relu_layer()};
  const LayerRun run = layer_run_of(layers);
  const auto together = [&] {
    return run.call({.tensors = {seen_images()}}, fixture.context).tensors.at(0);
  };
  const auto apart = [&] { return called_in_turn(layers, seen_images(), fixture.context); };
  together();
  const auto kernel = [&] {
    return internal::FoldedKernel::of(fixture.context, layers[1].impl().identity())
        ->kernel()
        .data_ptr();
  };
  stir_weights(fixture);
  expect_near_all(together(), apart());
  const void* before = kernel();
  together();
  EXPECT_EQ(kernel(), before) << "nothing was written";
  for (const auto& variable : fixture.store.variables()) {
    variable->value().mul_(1.25);
    expect_near_all(together(), apart());
    // Through a view, as optimizers write; and with memory of its own.
    variable->value().view({-1}).slice(0, 0, 2).add_(0.5);
    expect_near_all(together(), apart());
    variable->value().set_data(variable->value() * 0.75);
    expect_near_all(together(), apart());
    variable->value() = variable->value() + 0.125;
    expect_near_all(together(), apart());
  }
}

TEST(LayerRun, IsNotFoldedWhereOneNeedsTheOther) {
  const Layer conv = Conv2D(5, 3), normalization = BatchNormalization();
  const Layer model = Sequential({conv, normalization, relu_layer()});
  Fixture fixture;
  {
    const torch::NoGradGuard no_grad;
    fixture.context.begin_step(/*training=*/true, 0, 0);
    model(seen_images(), fixture.context);
    EXPECT_FALSE(has_folded(fixture, normalization)) << "training";
    fixture.context.begin_step(false, 0, 0);
    mixed_precision("bfloat16", model)(seen_images(), fixture.context);
    EXPECT_FALSE(has_folded(fixture, normalization)) << "mixed precision";
    model(seen_images().slice(0, 0, 0), fixture.context);
    EXPECT_FALSE(has_folded(fixture, normalization)) << "no rows";
  }
  model(seen_images(), fixture.context).sum().backward();
  EXPECT_FALSE(has_folded(fixture, normalization)) << "gradients";
  EXPECT_TRUE(fixture.store.value("conv2d/kernel").grad().defined());
  const torch::NoGradGuard no_grad;
  model(seen_images(), fixture.context);
  EXPECT_TRUE(has_folded(fixture, normalization));
  fixture.context.begin_step(true, 1, 0);
  EXPECT_FALSE(has_folded(fixture, normalization)) << "a step that trains lets it go";
}

TEST(LayerRun, FoldingLeavesVariablesAlone) {
  const std::vector<Layer> layers{ZeroPadding2D(1), Conv2D(5, 3), BatchNormalization(),
                                  relu_layer()};
  const torch::NoGradGuard no_grad;
  Fixture apart, together;
  called_in_turn(layers, seen_images(), apart.context);
  Sequential(layers)(seen_images(), together.context);
  ASSERT_TRUE(has_folded(together, layers[2]));
  EXPECT_EQ(together.store.names(), apart.store.names());
  for (const std::string& name : apart.store.names()) {
    EXPECT_TRUE(together.store.value(name).equal(apart.store.value(name))) << name;
    EXPECT_EQ(together.store.value(name).requires_grad(), apart.store.value(name).requires_grad());
  }
}

TEST(LayerRun, ANormalizationIsNotFoldedIfItsInputIsUsedElsewhere) {
  const Layer conv = Conv2D(4, 3, {.padding = Padding::kSame}),
              normalization = BatchNormalization();
  const SymbolicTensor input = Input({7, 6, 4});
  const SymbolicTensor between = conv(input);
  const SymbolicTensor behind = normalization(between);
  const torch::NoGradGuard no_grad;
  for (const Functional& model :
       {Functional({input}, {Add()({between, behind})}), Functional({input}, {between, behind})}) {
    Fixture fixture;
    model({.tensors = {seen_images()}}, fixture.context);
    stir_weights(fixture);
    const LayerOutputs outputs = model({.tensors = {seen_images()}}, fixture.context);
    EXPECT_FALSE(has_folded(fixture, normalization));
    const Tensor first = conv(seen_images(), fixture.context);
    const Tensor second = normalization(first, fixture.context);
    expect_near_all(outputs.tensors.at(0), outputs.tensors.size() == 1 ? first + second : first);
  }
  const Functional chain({input}, {relu_layer()(behind)});
  Fixture fixture;
  chain({.tensors = {seen_images()}}, fixture.context);
  EXPECT_TRUE(has_folded(fixture, normalization));
}

TEST(LayerRun, OthersStayApart) {
  const Layer normalization = BatchNormalization();
  EXPECT_FALSE(layer_run_of({Conv2D(5, 3, {.activation = activations::relu}), normalization}));
  EXPECT_FALSE(
      layer_run_of({Conv2D(5, 3, {.activity_regularizer = regularizers::l2(0.1)}), normalization}));
  EXPECT_FALSE(layer_run_of({Conv2D(5, 3), relu_layer()}));
  EXPECT_FALSE(layer_run_of({Conv2D(5, 3)}));
  // They are still pairs of their own.
  EXPECT_EQ(layer_run_of({normalization, relu_layer()}).size(), 2U);
  EXPECT_EQ(layer_run_of({ZeroPadding2D(1), Conv2D(5, 3), relu_layer()}).size(), 2U);
}

}  // namespace
}  // namespace muster::inline v0_1
