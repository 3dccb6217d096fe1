#include <gtest/gtest.h>

#include <cmath>

#include "muster/layers/convolution.h"
#include "muster/layers/dense.h"
#include "muster/layers/dropout.h"
#include "muster/layers/internal/test_gradients.h"
#include "muster/layers/internal/test_layers.h"
#include "muster/layers/pooling.h"
#include "muster/layers/reshape.h"
#include "muster/layers/sequential.h"
#include "muster/layers/step_context.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using testing::check_gradients;
using testing::Fixture;
using testing::numbers;
using testing::TestStore;

TEST(Dense, AgreesWithPlainLoops) {
  for (const bool use_bias : {true, false}) {
    Fixture fixture;
    const Layer layer = Dense(4, {.activation = activations::tanh,
                                  .use_bias = use_bias,
                                  .bias_initializer = initializers::constant(0.25)});
    const Tensor x = numbers({3, 5});
    const Tensor y = layer(x, fixture.context);
    const Tensor& kernel = fixture.store.value("dense/kernel");
    ASSERT_EQ(kernel.sizes(), (std::vector<int64_t>{5, 4}));
    for (int64_t row = 0; row < 3; ++row)
      for (int64_t unit = 0; unit < 4; ++unit) {
        double sum = use_bias ? 0.25 : 0;
        for (int64_t i = 0; i < 5; ++i)
          sum += x[row][i].item<double>() * kernel[i][unit].item<double>();
        EXPECT_NEAR(y[row][unit].item<double>(), std::tanh(sum), 1e-14);
      }
    EXPECT_EQ(fixture.store.names().size(), use_bias ? 2u : 1u);
    // Over the last axis of any rank.
    const Tensor deep = numbers({2, 3, 5});
    const Tensor deep_y = layer(deep, fixture.context);
    EXPECT_TRUE(torch::allclose(deep_y[1], layer(deep[1], fixture.context), 0, 1e-14));
  }
}

TEST(Activations, AreTheTextbookFunctions) {
  const Tensor x = torch::tensor({{-1.5, 0.0, 2.0}}, at::kDouble);
  const double v[3] = {-1.5, 0.0, 2.0};
  const double sum = std::exp(v[0]) + std::exp(v[1]) + std::exp(v[2]);
  for (int i = 0; i < 3; ++i) {
    const auto at = [&](Activation a) { return activations::apply(a, x)[0][i].item<double>(); };
    EXPECT_EQ(at(activations::linear), v[i]);
    EXPECT_EQ(at(activations::relu), std::max(v[i], 0.0));
    EXPECT_NEAR(at(activations::tanh), std::tanh(v[i]), 1e-15);
    EXPECT_NEAR(at(activations::sigmoid), 1 / (1 + std::exp(-v[i])), 1e-15);
    EXPECT_NEAR(at(activations::softmax), std::exp(v[i]) / sum, 1e-15);
  }
}

TEST(Flatten, KeepsMemoryOrderWithoutACopy) {
  Fixture fixture;
  const Tensor x = numbers({2, 3, 4, 5});
  const Tensor y = Flatten()(x, fixture.context);
  EXPECT_EQ(y.sizes(), (std::vector<int64_t>{2, 60}));
  EXPECT_EQ(y.data_ptr(), x.data_ptr());
  EXPECT_EQ(Flatten()(numbers({3}), fixture.context).sizes(), (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(Flatten()(torch::zeros({0, 3, 4, 5}), fixture.context).sizes(),
            (std::vector<int64_t>{0, 60}));
}

TEST(Gradients, AgreeWithFiniteDifferences) {
  const auto bias = initializers::random_uniform(-0.5, 0.5);
  check_gradients(Dense(3, {.activation = activations::sigmoid, .bias_initializer = bias}),
                  numbers({4, 5}));
  check_gradients(Conv2D(3, 3, {.bias_initializer = bias}), numbers({2, 5, 6, 1}));
  check_gradients(Conv2D(2, {3, 2},
                         {.strides = 2,
                          .padding = Padding::kSame,
                          .activation = activations::tanh,
                          .bias_initializer = bias}),
                  numbers({2, 6, 5, 3}));
  check_gradients(MaxPooling2D({.pool_size = 3, .strides = 2, .padding = Padding::kSame}),
                  numbers({2, 6, 5, 2}));
  check_gradients(Dropout(0.4), numbers({6, 7}));
  check_gradients(
      Sequential({Conv2D(4, 3, {.activation = activations::relu, .bias_initializer = bias}),
                  MaxPooling2D(), Flatten(), Dense(6, {.activation = activations::relu}),
                  Dense(3, {.activation = activations::softmax})}),
      numbers({2, 8, 8, 1}));
}

TEST(Dropout, KeepsAboutTheRateAndScalesTheRest) {
  Fixture fixture;
  const Tensor x = torch::ones({200, 500});
  const Layer layer = Dropout(0.3);
  EXPECT_TRUE(layer(x, fixture.context).is_same(x)) << "outside training it does nothing";
  fixture.context.begin_step(true, 0, 0);
  const Tensor y = layer(x, fixture.context);
  const double dropped = y.eq(0).to(at::kDouble).mean().item<double>();
  EXPECT_NEAR(dropped, 0.3, 0.006);  // four standard deviations of 100,000 draws
  EXPECT_TRUE(torch::logical_or(y.eq(0), y.eq(static_cast<float>(1 / 0.7))).all().item<bool>());
  EXPECT_TRUE(Dropout(0)(x, fixture.context).is_same(x));
}

TEST(Dropout, DrawsOnceForAxesOfSizeOneInItsNoiseShape) {
  Fixture fixture;
  fixture.context.begin_step(true, 0, 0);
  const Tensor x = torch::ones({20, 5, 30});
  const Tensor y = Dropout(0.5, {.noise_shape = {-1, 1, 30}})(x, fixture.context);
  EXPECT_TRUE(torch::logical_or(y.eq(0), y.eq(2)).all().item<bool>());
  const Tensor first = y.select(1, 0);
  for (int64_t t = 1; t < 5; ++t) EXPECT_TRUE(y.select(1, t).equal(first));
  // Along the other axes each element is drawn for itself: 600 of them, four standard deviations.
  EXPECT_NEAR(first.mean().item<double>(), 1, 0.17);
  EXPECT_FALSE(first[0].equal(first[1]));
  EXPECT_FALSE(first.select(1, 0).equal(first.select(1, 1)));

  EXPECT_EQ(message_of([] {
              Dropout(0.5, {.noise_shape = {-1, 0}});
            }),
            "Dropout: noise_shape is [-1, 0]");
  EXPECT_EQ(message_of([] { Dropout(1, {.noise_shape = {-1}}); }), "Dropout: rate is 1");
  const Layer two_rows = Dropout(0.5, {.noise_shape = {-1, 2, 1}, .name = "two_rows"});
  EXPECT_EQ(message_of([&] { two_rows(x, fixture.context); }),
            "layer two_rows: expected an input that noise_shape [-1, 2, 1] fits, was given "
            "float32[20, 5, 30]");
  const Layer two_axes = Dropout(0.5, {.noise_shape = {-1, 1}, .name = "two_axes"});
  EXPECT_EQ(message_of([&] { two_axes(x, fixture.context); }),
            "layer two_axes: expected an input that noise_shape [-1, 1] fits, was given "
            "float32[20, 5, 30]");
}

TEST(Dropout, MaskIsAFunctionOfSeedStepReplicaAndLayer) {
  const Tensor x = torch::ones({40, 40});
  const auto mask = [&](uint64_t seed, int64_t step, int64_t replica, int layer, int use) {
    TestStore store;
    StepContext context(store, seed);
    const Layer layers[2] = {Dropout(0.5), Dropout(0.5)};
    context.begin_step(true, 77, 0);  // an earlier step leaves no trace
    for (const Layer& each : layers) each(x, context);
    context.begin_step(true, step, replica);
    Tensor y;
    for (int i = 0; i <= use; ++i) y = layers[layer](x, context);
    return y;
  };
  const Tensor base = mask(1, 5, 0, 0, 0);
  EXPECT_TRUE(torch::equal(base, mask(1, 5, 0, 0, 0)));
  EXPECT_FALSE(torch::equal(base, mask(2, 5, 0, 0, 0)));
  EXPECT_FALSE(torch::equal(base, mask(1, 6, 0, 0, 0)));
  EXPECT_FALSE(torch::equal(base, mask(1, 5, 1, 0, 0)));
  EXPECT_FALSE(torch::equal(base, mask(1, 5, 0, 1, 0)));
  EXPECT_FALSE(torch::equal(base, mask(1, 5, 0, 0, 1)));
}

TEST(CallContextTest, CommonKeysAreThoseOfAllReplicas) {
  const LayerIdentity layer("noise", "");
  const auto key = [&](int64_t step, int64_t replica, int64_t batch, int use) {
    Fixture fixture;
    fixture.context.begin_step(true, step, replica, batch);
    RandomKey last;
    for (int i = 0; i <= use; ++i) last = fixture.context.common_random_key(layer);
    return last;
  };
  EXPECT_EQ(key(5, 0, 0, 0), key(5, 3, 0, 0));
  EXPECT_NE(key(5, 0, 0, 0), key(6, 0, 0, 0));
  EXPECT_NE(key(5, 0, 0, 0), key(5, 0, 1, 0));
  EXPECT_NE(key(5, 0, 0, 0), key(5, 0, 0, 1));
  Fixture fixture;
  fixture.context.begin_step(true, 5, 0);
  EXPECT_NE(fixture.context.random_key(layer), key(5, 0, 0, 0));
  EXPECT_EQ(fixture.context.common_random_key(layer), key(5, 0, 0, 1)) << "they are counted alike";
}

TEST(CallContextTest, RowsBeginAfterThoseOfTheReplicasBefore) {
  Fixture fixture;
  EXPECT_EQ(fixture.context.first_row(9), 0);
  fixture.context.set_replicas(3, [](const Tensor& mine) {
    EXPECT_TRUE(mine.equal(torch::tensor({0, 0, 4}, kInt64))) << mine;
    return mine + torch::tensor({5, 2, 0}, kInt64);
  });
  fixture.context.begin_step(true, 0, 2);
  EXPECT_EQ(fixture.context.first_row(4), 7);
}

}  // namespace
}  // namespace muster::inline v0_1
