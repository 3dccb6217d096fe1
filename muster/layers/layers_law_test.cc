// Invariants of every layer of one tensor: its gradients equal finite differences, no rows give no
// rows and no gradients, and layers without weights take bfloat16.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "muster/layers/activation_layers.h"
#include "muster/layers/attention.h"
#include "muster/layers/bidirectional.h"
#include "muster/layers/convolution.h"
#include "muster/layers/dense.h"
#include "muster/layers/internal/test_gradients.h"
#include "muster/layers/internal/test_layers.h"
#include "muster/layers/layer_normalization.h"
#include "muster/layers/noise.h"
#include "muster/layers/padding.h"
#include "muster/layers/pooling.h"
#include "muster/layers/recurrent.h"
#include "muster/layers/recurrent_cell.h"
#include "muster/layers/rescaling.h"
#include "muster/layers/reshape.h"
#include "muster/layers/time_distributed.h"
#include "muster/layers/unary_layer.h"
#include "muster/layers/upsampling.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using testing::Fixture;
using testing::numbers;

struct Example {
  Layer layer;
  Shape shape{};
};

// Attention of a sequence to itself.
class SelfAttentionImpl final : public UnaryLayerImpl {
 public:
  explicit SelfAttentionImpl(Layer layer)
      : UnaryLayerImpl("self_" + layer.impl().identity().class_name, ""),
        layer_(std::move(layer)) {}

  Tensor call(const Tensor& input, CallContext& context) const override {
    return layer_({.tensors = {input, input}}, context).tensors[0];
  }

 private:
  Layer layer_;
};

Layer self(Layer attention) {
  return Layer(std::make_shared<SelfAttentionImpl>(std::move(attention)));
}

std::vector<Example> layers_with_weights() {
  return {
      {PReLU({.shared_axes = {1}}), {2, 3, 4}},
      {Conv1D(3, 2, {.strides = 2, .padding = Padding::kCausal}), {2, 5, 2}},
      {Conv1D(4, 2, {.padding = Padding::kSame, .dilation_rate = 2, .groups = 2}), {2, 5, 2}},
      {Conv2D(4, 3, {.padding = Padding::kSame, .dilation_rate = 2, .groups = 2}), {2, 5, 4, 2}},
      {Conv3D(2, 2, {.strides = 2, .padding = Padding::kSame}), {2, 3, 4, 3, 2}},
      {Conv2DTranspose(2, 3, {.strides = 2, .padding = Padding::kSame}), {2, 3, 2, 2}},
      {Conv2DTranspose(2, 2, Conv2DTransposeOptions{.strides = 3}), {2, 2, 2, 1}},
      {DepthwiseConv2D(3, {.padding = Padding::kSame, .depth_multiplier = 2}), {2, 4, 3, 2}},
      {SeparableConv2D(3, 2, {.activation = activations::gelu}), {2, 4, 3, 2}},
      {LayerNormalization(), {2, 3, 4}},
      {LayerNormalization({.axis = {1}}), {2, 3, 4}},
      {GroupNormalization({.groups = 2}), {2, 3, 2, 4}},
      {SimpleRNN(3, {.dropout = 0.3, .recurrent_dropout = 0.3}), {2, 4, 3}},
      {LSTM(3), {2, 4, 3}},
      {LSTM(3, {.dropout = 0.3, .recurrent_dropout = 0.3, .return_sequences = true}), {2, 4, 3}},
      {LSTM(3, {.recurrent_activation = activations::softsign, .use_bias = false}), {2, 4, 3}},
      {GRU(3, {.dropout = 0.3, .return_sequences = true}), {2, 4, 3}},
      {GRU(3, {.use_bias = false, .go_backwards = true}), {2, 4, 3}},
      {GRU(3, {.recurrent_dropout = 0.3, .reset_after = false}), {2, 4, 3}},
      {Bidirectional(LSTM(3, {.return_sequences = true})), {2, 4, 3}},
      {RNN(StackedRNNCells({GRUCell(2, {.dropout = 0.3}), LSTMCell(3)})), {2, 4, 3}},
      {Bidirectional(GRU(3), {.merge_mode = MergeMode::kMul}), {2, 4, 3}},
      {TimeDistributed(Dense(3)), {2, 4, 3}},
      {self(Attention({.use_scale = true, .score_mode = ScoreMode::kConcat})), {2, 4, 3}},
      {self(Attention({.use_scale = true, .causal = true, .dropout = 0.3})), {2, 4, 3}},
      {self(MultiHeadAttention(2, 3, {.value_dim = 2})), {2, 4, 3}},
      {self(MultiHeadAttention(2, 3, {.dropout = 0.3, .use_causal_mask = true})), {2, 4, 3}},
  };
}

std::vector<Example> layers_without_weights() {
  const auto same = Padding::kSame;
  return {
      {ReLU({.max_value = 0.7, .negative_slope = 0.2, .threshold = 0.1}), {2, 7}},
      {Softmax(1), {2, 3, 4}},
      {MaxPooling1D({.pool_size = 3, .strides = 2, .padding = same}), {2, 6, 2}},
      {MaxPooling2D({.pool_size = 3, .strides = 2, .padding = same}), {2, 4, 5, 2}},
      {MaxPooling3D({.pool_size = 2, .strides = 1, .padding = same}), {2, 2, 3, 3, 2}},
      {AveragePooling1D({.pool_size = 3, .strides = 2, .padding = same}), {2, 6, 2}},
      {AveragePooling2D({.pool_size = 3, .strides = 2, .padding = same}), {2, 4, 5, 2}},
      {AveragePooling3D({.pool_size = 2, .strides = 1, .padding = same}), {2, 2, 3, 3, 2}},
      {GlobalMaxPooling1D(), {2, 4, 3}},
      {GlobalAveragePooling3D(), {2, 2, 3, 2, 3}},
      {ZeroPadding2D({{1, 0}, {2, 1}}), {2, 3, 2, 2}},
      {Cropping2D({{1, 0}, {0, 1}}), {2, 3, 3, 2}},
      {UpSampling1D(3), {2, 3, 2}},
      {UpSampling2D({.size = {2, 3}, .interpolation = Interpolation::kBilinear}), {2, 3, 2, 2}},
      {UpSampling2D({.size = {2, 3}, .interpolation = Interpolation::kLanczos3}), {2, 3, 2, 2}},
      {UpSampling3D(), {2, 2, 1, 2, 2}},
      {Reshape({-1, 2}), {2, 3, 4}},
      {Permute({2, 1}), {2, 3, 4}},
      {RepeatVector(3), {2, 4}},
      {SpatialDropout1D(0.4), {2, 3, 4}},
      {AlphaDropout(0.4), {3, 5}},
      {GaussianNoise(0.5), {3, 5}},
      {GaussianDropout(0.4), {3, 5}},
      {UnitNormalization(), {3, 5}},
      {Rescaling(3, -1), {3, 5}},
  };
}

std::vector<Example> all_layers() {
  std::vector<Example> all = layers_with_weights();
  for (Example& each : layers_without_weights()) all.push_back(std::move(each));
  return all;
}

TEST(EveryLayer, HasTheGradientsOfFiniteDifferences) {
  for (const Example& each : all_layers()) {
    SCOPED_TRACE(each.layer.impl().identity().class_name);
    testing::check_gradients(each.layer, numbers(each.shape));
  }
}

TEST(EveryLayer, GivesNoRowsForNoRows) {
  for (const auto dtype : {kFloat32, kFloat64}) {
    for (const Example& each : all_layers()) {
      SCOPED_TRACE(each.layer.impl().identity().class_name);
      Fixture fixture;
      fixture.context.begin_step(true, 2, 0);
      const Tensor some = each.layer(numbers(each.shape).to(dtype), fixture.context);
      Shape none = each.shape;
      none[0] = 0;
      Tensor input = torch::zeros(none, dtype).requires_grad_();
      const Tensor y = each.layer(input, fixture.context);
      EXPECT_EQ(y.size(0), 0);
      EXPECT_EQ(y.sizes().slice(1), some.sizes().slice(1));
      EXPECT_EQ(y.scalar_type(), dtype);
      y.sum().backward();
      for (const auto& variable : fixture.store.variables()) {
        ASSERT_TRUE(variable->value().grad().defined()) << variable->name();
        EXPECT_TRUE(variable->value().grad().eq(0).all().item<bool>()) << variable->name();
      }
    }
  }
}

// LibTorch has other kernels for float32, and yet others for inputs that require no gradient.
TEST(EveryLayer, ComputesInFloat32WhatItDoesInFloat64) {
  for (const Example& each : all_layers()) {
    SCOPED_TRACE(each.layer.impl().identity().class_name);
    Tensor values[2], inputs[2];
    std::vector<Tensor> weights[2];
    for (const bool single : {false, true}) {
      Fixture fixture;
      fixture.context.begin_step(true, 2, 0);
      const auto dtype = single ? kFloat32 : kFloat64;
      Tensor x = numbers(each.shape).to(dtype).requires_grad_();
      const Tensor y = each.layer(x, fixture.context);
      (y * numbers(y.sizes(), 1.9).to(dtype)).sum().backward();
      values[single] = y.detach().to(kFloat64);
      inputs[single] = x.grad().to(kFloat64);
      for (const auto& variable : fixture.store.variables())
        weights[single].push_back(variable->value().grad().to(kFloat64));
      fixture.context.begin_step(true, 2, 0);
      torch::NoGradGuard no_grad;
      EXPECT_TRUE(
          torch::allclose(each.layer(x, fixture.context).to(kFloat64), values[single], 1e-5, 1e-5));
    }
    EXPECT_TRUE(torch::allclose(values[1], values[0], 1e-4, 1e-4));
    EXPECT_TRUE(torch::allclose(inputs[1], inputs[0], 1e-4, 1e-4));
    for (size_t i = 0; i < weights[0].size(); ++i)
      EXPECT_TRUE(torch::allclose(weights[1][i], weights[0][i], 1e-4, 1e-4));
  }
}

TEST(EveryLayer, WithoutWeightsTakesBfloat16) {
  for (const Example& each : layers_without_weights()) {
    const std::string& name = each.layer.impl().identity().class_name;
    SCOPED_TRACE(name);
    Fixture fixture;
    fixture.context.begin_step(true, 2, 0);
    // Both see the same numbers, and draw the same ones.
    const Tensor x = numbers(each.shape).to(kBFloat16);
    const Tensor y = each.layer(x, fixture.context);
    fixture.context.begin_step(true, 2, 0);
    const Tensor expected = each.layer(x.to(kFloat32), fixture.context);
    EXPECT_EQ(y.scalar_type(), kBFloat16);
    EXPECT_TRUE(torch::allclose(y.to(kFloat32), expected, 0.03, 0.03));
  }
}

}  // namespace
}  // namespace muster::inline v0_1
