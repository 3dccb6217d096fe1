#include "muster/layers/layer.h"

#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/base/log.h"
#include "muster/layers/convolution.h"
#include "muster/layers/dense.h"
#include "muster/layers/dropout.h"
#include "muster/layers/embedding.h"
#include "muster/layers/internal/test_layers.h"
#include "muster/layers/lambda.h"
#include "muster/layers/pooling.h"
#include "muster/layers/reshape.h"
#include "muster/layers/sequential.h"
#include "muster/layers/unary_layer.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using testing::Fixture;
using testing::numbers;

TEST(Names, AreThoseOfKeras) {
  Fixture fixture;
  const Layer model = Sequential(
      {Conv2D(2, 3), MaxPooling2D(), Conv2D(2, 3, {.padding = Padding::kSame}),
       Sequential({Flatten(), Dense(3), Dropout(0.5)}), Dense(2, {.name = "logits"}), Dense(1)});
  const std::string scope_name = "cnn";
  {
    CallContext::Scope scope(fixture.context, scope_name);
    model(numbers({1, 8, 8, 1}), fixture.context);
    model(numbers({1, 8, 8, 1}), fixture.context);
  }
  EXPECT_EQ(fixture.store.names(),
            (std::vector<std::string>{"cnn/conv2d/kernel", "cnn/conv2d/bias", "cnn/conv2d_1/kernel",
                                      "cnn/conv2d_1/bias", "cnn/dense/kernel", "cnn/dense/bias",
                                      "cnn/logits/kernel", "cnn/logits/bias", "cnn/dense_1/kernel",
                                      "cnn/dense_1/bias"}));
  // Another scope counts for itself; without one there is no prefix.
  const std::string other = "head";
  {
    CallContext::Scope scope(fixture.context, other);
    Dense(1)(numbers({1, 2}), fixture.context);
  }
  Dense(1)(numbers({1, 2}), fixture.context);
  EXPECT_NE(fixture.store.find("head/dense/kernel"), nullptr);
  EXPECT_NE(fixture.store.find("dense/kernel"), nullptr);
  EXPECT_EQ(message_of([&] {
              Dense(1, {.name = "same"})(numbers({1, 2}), fixture.context);
              Dense(1, {.name = "same"})(numbers({1, 2}), fixture.context);
            }),
            "two layers are named \"same\"");
  message_of([] { Dense(1, {.name = "a/b"}); });
}

TEST(Layer, SharesWeightsWithinAContextAndNothingBetweenContexts) {
  const Layer layer = Dense(3);
  const Layer copy = layer;
  Fixture train, eval;
  layer(numbers({2, 4}), train.context);
  copy(numbers({2, 4}), train.context);
  EXPECT_EQ(train.store.variables().size(), 2u);
  layer(numbers({2, 4}), eval.context);
  EXPECT_EQ(eval.store.variables().size(), 2u);
  EXPECT_NE(train.store.value("dense/kernel").data_ptr(),
            eval.store.value("dense/kernel").data_ptr());
}

TEST(Layer, SeesAVariableThatWasMoved) {
  Fixture fixture;
  const Layer layer = Dense(2, {.use_bias = false});
  layer(numbers({1, 3}), fixture.context);
  fixture.store.find("dense/kernel")->value() = torch::ones({3, 2}, at::kDouble);
  const Tensor x = torch::tensor({{1.0, 2.0, 4.0}}, at::kDouble);
  EXPECT_TRUE(torch::equal(layer(x, fixture.context), torch::full({1, 2}, 7.0, at::kDouble)));
}

TEST(Errors, NameTheLayerAndBothShapes) {
  Fixture fixture;
  const Layer conv = Conv2D(2, 3);
  conv(torch::zeros({1, 5, 5, 3}), fixture.context);
  EXPECT_EQ(message_of([&] {
              conv(torch::zeros({1, 5, 5, 1}), fixture.context);
            }),
            "layer conv2d: expected images [batch, height, width, 3], was given "
            "float32[1, 5, 5, 1]");
  EXPECT_EQ(message_of([&] {
              conv(torch::zeros({1, 5, 5}), fixture.context);
            }),
            "layer conv2d: expected images [batch, height, width, channels], was given "
            "float32[1, 5, 5]");
  const auto hint = [&](at::IntArrayRef shape) {
    return error_of([&] { conv(torch::zeros(shape), fixture.context); }).hint();
  };
  EXPECT_EQ(hint({64, 784}), "reshape it first: reshape({-1, 28, 28, 1})");
  EXPECT_EQ(hint({64, 100, 1}), "add the channels with unsqueeze(-1)");
  EXPECT_EQ(hint({64, 30}), "reshape it first: reshape({-1, height, width, 1})");
  EXPECT_EQ(message_of([&] {
              conv(torch::zeros({1, 2, 5, 3}), fixture.context);
            }),
            "layer conv2d: expected images of at least 3x3, was given float32[1, 2, 5, 3]");
  EXPECT_EQ(message_of([&] {
              conv(torch::zeros({1, 5, 5, 3}, at::kByte), fixture.context);
            }),
            "layer conv2d: expected a float32 or float64 input, was given uint8[1, 5, 5, 3]");
  EXPECT_EQ(message_of([&] {
              conv(torch::zeros({1, 5, 5, 3}, at::kDouble), fixture.context);
            }),
            "layer conv2d: expected the dtype of its variables, float32, was given "
            "float64[1, 5, 5, 3]");
  EXPECT_EQ(message_of([&] { conv(Tensor(), fixture.context); }),
            "layer conv2d: the input is undefined");
  EXPECT_EQ(message_of([&] {
              MaxPooling2D()(torch::zeros({4, 4}), fixture.context);
            }),
            "layer max_pooling2d: expected images [batch, height, width, channels], was given "
            "float32[4, 4]");
  const Layer dense = Dense(2, {.name = "logits"});
  dense(torch::zeros({1, 5}), fixture.context);
  EXPECT_EQ(message_of([&] {
              dense(torch::zeros({1, 6}), fixture.context);
            }),
            "layer logits: expected [..., 5], was given float32[1, 6]");
  EXPECT_EQ(message_of([&] { dense(torch::zeros({5}), fixture.context); }),
            "layer logits: expected [batch, features], was given float32[5]");
  EXPECT_EQ(message_of([] { Conv2D(0, 3); }), "Conv2D: filters is 0");
  EXPECT_EQ(message_of([] { Conv2D(1, {3, -1}); }), "Conv2D: kernel_size is 3x-1");
  EXPECT_EQ(message_of([] { MaxPooling2D({.pool_size = 0}); }), "MaxPooling2D: pool_size is 0");
  EXPECT_EQ(message_of([] { Dense(-4); }), "Dense: units is -4");
  EXPECT_EQ(message_of([] { Dropout(1.0); }), "Dropout: rate is 1");
}

// The mean over the steps that count: two tensors and a mask go in, one tensor comes out.
class MaskedMixImpl final : public LayerImpl {
 public:
  MaskedMixImpl() : LayerImpl("masked_mix", "") {}

  LayerOutputs call(const LayerInputs& inputs, CallContext& context) const override {
    context.name_of(identity());
    const Tensor weights = inputs.masks[0].to(kFloat64).unsqueeze(-1);
    const Tensor mixed = inputs.tensors[0] + inputs.tensors[1];
    return {.tensors = {(mixed * weights).sum(1) / weights.sum(1)}};
  }
};

// Ids go in; the ids and which of them are not 0 come out.
class MaskZerosImpl final : public LayerImpl {
 public:
  MaskZerosImpl() : LayerImpl("mask_zeros", "") {}

  LayerOutputs call(const LayerInputs& inputs, CallContext&) const override {
    return {.tensors = inputs.tensors, .masks = {inputs.tensors[0].ne(0)}};
  }
};

// A running sum over the steps that count, which continues where it ended.
class RunningSumImpl final : public LayerImpl {
 public:
  RunningSumImpl() : LayerImpl("running_sum", "") {}

  LayerOutputs call(const LayerInputs& inputs, CallContext&) const override {
    Tensor steps = inputs.tensors[0];
    if (!inputs.masks.empty() && inputs.masks[0].defined())
      steps = steps * inputs.masks[0].unsqueeze(-1).to(steps.scalar_type());
    Tensor sums = steps.cumsum(1);
    if (!inputs.state.empty()) sums = sums + inputs.state[0].unsqueeze(1);
    return {.tensors = {sums}, .masks = inputs.masks, .state = {sums.select(1, -1)}};
  }
};

template <typename Impl>
Layer make() {
  return Layer(std::make_shared<Impl>());
}

TEST(LayerValues, SeveralTensorsGoInWithTheirMasks) {
  Fixture fixture;
  const Tensor x = numbers({2, 3, 4}), y = numbers({2, 3, 4}, 1.1);
  const Tensor mask = torch::tensor({1, 1, 0, 0, 1, 1}).view({2, 3}).to(at::kBool);
  const LayerOutputs out =
      make<MaskedMixImpl>()({.tensors = {x, y}, .masks = {mask, Tensor()}}, fixture.context);
  ASSERT_EQ(out.tensors.size(), 1u);
  const Tensor mixed = x + y;
  EXPECT_TRUE(torch::allclose(out.tensors[0][0], (mixed[0][0] + mixed[0][1]) / 2));
  EXPECT_TRUE(torch::allclose(out.tensors[0][1], (mixed[1][1] + mixed[1][2]) / 2));
  EXPECT_TRUE(out.masks.empty());
}

TEST(LayerValues, SequentialPassesMasksAlong) {
  Fixture fixture;
  const Layer embedding = Embedding(5, 3), dense = Dense(2), sum = make<RunningSumImpl>();
  const Layer model =
      Sequential({make<MaskZerosImpl>(), embedding, Dropout(0.5), dense, sum, Dense(4)});
  const Tensor ids = torch::tensor({1, 4, 0, 2, 0, 0}).view({2, 3});
  const LayerOutputs out = model(LayerInputs{.tensors = {ids}}, fixture.context);
  ASSERT_EQ(out.masks.size(), 1u);
  EXPECT_TRUE(out.masks[0].equal(ids.ne(0)));
  EXPECT_EQ(out.tensors[0].sizes(), (std::vector<int64_t>{2, 3, 4}));
  EXPECT_TRUE(out.state.empty()) << "of the running sum, which is not the last layer";
  // The same step by step; if one tensor is requested, the mask is left out.
  const Tensor steps = dense(embedding(ids, fixture.context), fixture.context);
  const LayerOutputs summed =
      sum(LayerInputs{.tensors = {steps}, .masks = {ids.ne(0)}}, fixture.context);
  EXPECT_TRUE(summed.tensors[0][1][2].equal(steps[1][0])) << "one step counts";
  EXPECT_TRUE(model(ids, fixture.context).equal(out.tensors[0]));
}

TEST(LayerValues, StateGoesIntoTheFirstLayerAndComesOutOfTheLast) {
  Fixture fixture;
  const Tensor x = numbers({2, 6, 3});
  const Layer model = Sequential({make<RunningSumImpl>()});
  const LayerOutputs whole = model(LayerInputs{.tensors = {x}}, fixture.context);
  const LayerOutputs first = model(LayerInputs{.tensors = {x.slice(1, 0, 4)}}, fixture.context);
  const LayerOutputs rest =
      model({.tensors = {x.slice(1, 4)}, .state = first.state}, fixture.context);
  EXPECT_TRUE(torch::allclose(rest.tensors[0], whole.tensors[0].slice(1, 4)));
  EXPECT_TRUE(torch::allclose(rest.state[0], whole.state[0]));
}

TEST(Layers, ThatAreMadeWronglyAreNamed) {
  EXPECT_EQ(message_of([] { Dense(-3, {.name = "head"}); }), "Dense \"head\": units is -3");
  EXPECT_EQ(message_of([] { Dense(-3); }), "Dense: units is -3");
  EXPECT_EQ(message_of([] { Dropout(50, {.name = "drop"}); }), "Dropout \"drop\": rate is 50");
  EXPECT_EQ(message_of([] {
              Conv2D(4, {0, 3}, {.name = "stem"});
            }),
            "Conv2D \"stem\": kernel_size is 0x3");
  EXPECT_EQ(message_of([] { MaxPooling2D({.pool_size = 0, .name = "pool"}); }),
            "MaxPooling2D \"pool\": pool_size is 0");
}

TEST(Layers, HintsFitTheInputTheyRefuse) {
  Fixture fixture;
  const auto hint = [&](const Tensor& input) {
    return error_of([&] { Dense(1)(input, fixture.context); }).hint();
  };
  EXPECT_EQ(hint(torch::zeros({2, 4, 4, 1}, at::kByte)),
            "convert images in the input function: image.to(kFloat32) / 255");
  EXPECT_TRUE(hint(torch::zeros({2, 3}, at::kLong))
                  .starts_with("convert numbers in the input function: x.to(kFloat32); ids of"));
  EXPECT_EQ(hint(torch::zeros({2, 3}, at::kHalf)),
            "convert the features in the input function: x.to(kFloat32)");
}

// One feature in float64 makes a whole model float64, which is easily overlooked.
TEST(Layers, AFloat64InputIsWarnedOfOnceForAModel) {
  Fixture fixture;
  const std::string scope = "float64_model";
  const CallContext::Scope named(fixture.context, scope);
  const auto said = [&](const Layer& layer, const Tensor& input) {
    ::testing::internal::CaptureStderr();
    layer(input, fixture.context);
    log::flush();
    return ::testing::internal::GetCapturedStderr();
  };
  const Layer model = Sequential({Dense(2), Dense(2)});
  EXPECT_EQ(said(Dense(2), numbers({2, 3}).to(kFloat32)), "");
  EXPECT_EQ(said(Dense(2), numbers({2, 3})), "") << "evaluation makes no weights of its own";
  fixture.context.begin_step(/*training=*/true, 0, 0);
  const std::string warning = said(model, numbers({2, 3}));
  EXPECT_NE(warning.find("W "), std::string::npos);
  EXPECT_NE(warning.find("layer float64_model/dense_2: its input is float64[2, 3], so its weights "
                         "and all later layers are float64, which is slower and needs twice the "
                         "memory; to avoid this, pass x.to(kFloat32)"),
            std::string::npos)
      << warning;
  EXPECT_EQ(warning.find("dense_3"), std::string::npos) << warning;
  EXPECT_EQ(said(Dense(2), numbers({2, 3})), "");
}

TEST(Lambda, NamesItselfWhereItsFunctionFails) {
  Fixture fixture;
  const Layer product = Lambda(
      [](const Tensor& x) {
        return x.matmul(torch::ones({7, 7}, x.options()));
      },
      "mine");
  const Error error = error_of([&] { product(numbers({2, 3}), fixture.context); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  // LibTorch's message follows; newer versions name the operation before it.
  EXPECT_THAT(error.message(),
              ::testing::StartsWith("layer mine: its function failed for float64[2, 3]: "));
  EXPECT_THAT(error.message(),
              HasSubstr("mat1 and mat2 shapes cannot be multiplied (2x3 and 7x7)"));
}

TEST(LayerValues, ThatDoNotFitAreRefused) {
  Fixture fixture;
  const Tensor x = numbers({2, 3, 4});
  const Tensor mask = torch::ones({2, 3}, at::kBool);
  const auto refused = [&](const Layer& layer, const LayerInputs& inputs) {
    return message_of([&] { layer(inputs, fixture.context); });
  };
  EXPECT_EQ(refused(Dense(1), {.tensors = {x, x}}),
            "layer dense: expected one tensor, was given 2");
  EXPECT_EQ(refused(Flatten(), {.tensors = {x}, .masks = {mask}}),
            "layer flatten: was given a mask, which it cannot take");
  EXPECT_EQ(refused(Flatten(), {.tensors = {x}, .state = {x}}),
            "layer flatten_1: was given a state, and has none");
  EXPECT_EQ(refused(Dense(1), {.tensors = {x, Tensor()}}),
            "layer dense_1: the input 1 is undefined");
  EXPECT_EQ(refused(Dense(1), {.tensors = {x}, .masks = {mask, mask}}),
            "layer dense_2: 2 masks were given for 1 tensors");
  EXPECT_EQ(refused(Dense(1), {.tensors = {x}, .masks = {mask.t()}}),
            "layer dense_3: the mask bool[3, 2] does not fit the input float64[2, 3, 4]");
  EXPECT_EQ(refused(Dense(1), {.tensors = {x}, .masks = {mask.to(kFloat32)}}),
            "layer dense_4: the mask float32[2, 3] does not fit the input float64[2, 3, 4]");
  EXPECT_EQ(refused(Sequential({Conv2D(1, 1, {.activation = activations::relu}), MaxPooling2D()}),
                    {.tensors = {numbers({2, 4, 4, 1})}, .masks = {torch::ones({2}, at::kBool)}}),
            "layer conv2d: was given a mask, which it cannot take");
  class TwoImpl final : public LayerImpl {
   public:
    TwoImpl() : LayerImpl("two", "") {}
    LayerOutputs call(const LayerInputs& inputs, CallContext&) const override {
      return {.tensors = {inputs.tensors[0], inputs.tensors[0]}};
    }
  };
  EXPECT_EQ(message_of([&] { make<TwoImpl>()(x, fixture.context); }),
            "layer two gives 2 tensors, where one was asked for");
}

}  // namespace
}  // namespace muster::inline v0_1
