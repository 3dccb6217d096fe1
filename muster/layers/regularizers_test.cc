#include "muster/layers/regularizers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "muster/layers/activation_layers.h"
#include "muster/layers/activity_regularization.h"
#include "muster/layers/attention.h"
#include "muster/layers/batch_normalization.h"
#include "muster/layers/constraints.h"
#include "muster/layers/convolution.h"
#include "muster/layers/dense.h"
#include "muster/layers/embedding.h"
#include "muster/layers/internal/test_layers.h"
#include "muster/layers/layer_normalization.h"
#include "muster/layers/pooling.h"
#include "muster/layers/recurrent.h"
#include "muster/layers/sequential.h"

namespace muster::inline v0_1 {
namespace {

using testing::Fixture;
using ::testing::HasSubstr;
using testing::numbers;

double number_of(const Tensor& scalar) { return scalar.item<double>(); }

TEST(RegularizersTest, GiveKerasNumbers) {
  const Tensor w = torch::tensor({1.0, -2.0, 3.0, -4.0}, at::kDouble).view({2, 2});
  EXPECT_DOUBLE_EQ(number_of(regularizers::l1()(w)), 0.1);
  EXPECT_DOUBLE_EQ(number_of(regularizers::l2()(w)), 0.3);
  EXPECT_DOUBLE_EQ(number_of(regularizers::l1_l2()(w)), 0.4);
  EXPECT_DOUBLE_EQ(number_of(regularizers::l1_l2({.l1 = 0.5, .l2 = 2})(w)), 65);
  EXPECT_DOUBLE_EQ(number_of(regularizers::l2(0)(w)), 0);
}

TEST(RegularizersTest, DerivativesAreThoseOfAutograd) {
  const Regularizer own = [](const Tensor& w) { return w.pow(4).sum() * 0.3; };
  for (const Regularizer& each :
       {regularizers::l1(0.2), regularizers::l2(0.3), regularizers::l1_l2(), own}) {
    const Tensor w = numbers({3, 4}).set_requires_grad(true);
    const Tensor expected = torch::autograd::grad({each(w)}, {w})[0];
    const Tensor gradient = torch::ones({3, 4}, at::kDouble);
    torch::NoGradGuard no_grad;
    each.add_gradient(w, gradient, 2.5);
    EXPECT_TRUE(torch::allclose(gradient, 1 + 2.5 * expected)) << each.description();
    EXPECT_FALSE(w.grad().defined());
  }
}

TEST(RegularizersTest, RefusesBadNumbersAndWhatIsNoScalar) {
  for (const double bad : {-0.1, std::numeric_limits<double>::infinity()}) {
    EXPECT_THAT(error_of([&] { regularizers::l1(bad); }).message(), HasSubstr("l1: l1 is"));
    EXPECT_THAT(error_of([&] { regularizers::l2(bad); }).message(), HasSubstr("l2: l2 is"));
    EXPECT_THAT(error_of([&] { regularizers::l1_l2({.l2 = bad}); }).message(),
                HasSubstr("l1_l2: l2 is"));
    EXPECT_THAT(error_of([&] { ActivityRegularization({.l1 = bad}); }).message(),
                HasSubstr("ActivityRegularization: l1 is"));
  }
  const Regularizer wrong = [](const Tensor& w) { return w * 2; };
  const Error error = error_of([&] { wrong(torch::ones({2})); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("gave float32[2] for float32[2]"));
}

// The rules that each variable of a layer gets, by "slot: regularizer, constraint".
std::map<std::string, std::string> rules_of(const Layer& layer, const LayerInputs& inputs) {
  Fixture f;
  (void)layer(inputs, f.context);
  std::map<std::string, std::string> rules;
  for (const auto& variable : f.store.variables()) {
    const VariableSpec& spec = variable->spec();
    rules[spec.name.substr(spec.name.find('/') + 1)] =
        spec.regularizer.description() + ", " + spec.constraint.description();
  }
  return rules;
}

std::map<std::string, std::string> rules_of(const Layer& layer, const Tensor& input) {
  return rules_of(layer, LayerInputs{.tensors = {input}});
}

TEST(RegularizersTest, EveryOptionReachesItsVariable) {
  using Rules = std::map<std::string, std::string>;
  const auto l1 = regularizers::l1(1), l2 = regularizers::l2(2), l3 = regularizers::l2(3);
  const auto c1 = constraints::max_norm(1), c2 = constraints::non_neg(),
             c3 = constraints::max_norm(3);
  const Tensor images = torch::zeros({1, 4, 4, 2});
  const Rules both{{"kernel", "l1(1), max_norm(1, [0])"}, {"bias", "l2(2), non_neg()"}};
  const auto with_kernel = [&](auto options) {
    options.kernel_regularizer = l1;
    options.bias_regularizer = l2;
    options.kernel_constraint = c1;
    options.bias_constraint = c2;
    return options;
  };
  EXPECT_EQ(rules_of(Dense(3, with_kernel(DenseOptions())), torch::zeros({2, 2})), both);
  EXPECT_EQ(rules_of(Conv1D(3, 2, with_kernel(Conv1DOptions())), torch::zeros({1, 4, 2})), both);
  EXPECT_EQ(rules_of(Conv2D(3, 2, with_kernel(Conv2DOptions())), images), both);
  EXPECT_EQ(rules_of(Conv3D(3, 2, with_kernel(Conv3DOptions())), torch::zeros({1, 2, 2, 2, 2})),
            both);
  EXPECT_EQ(rules_of(Conv2DTranspose(3, 2, with_kernel(Conv2DTransposeOptions())), images), both);
  const Layer depthwise = DepthwiseConv2D(2, {.depthwise_regularizer = l1,
                                              .bias_regularizer = l2,
                                              .depthwise_constraint = c1,
                                              .bias_constraint = c2});
  EXPECT_EQ(rules_of(depthwise, images),
            Rules({{"depthwise_kernel", "l1(1), max_norm(1, [0])"}, {"bias", "l2(2), non_neg()"}}));
  const Layer separable = SeparableConv2D(3, 2,
                                          {.depthwise_regularizer = l1,
                                           .pointwise_regularizer = l3,
                                           .bias_regularizer = l2,
                                           .depthwise_constraint = c1,
                                           .pointwise_constraint = c3,
                                           .bias_constraint = c2});
  EXPECT_EQ(rules_of(separable, images), Rules({{"depthwise_kernel", "l1(1), max_norm(1, [0])"},
                                                {"pointwise_kernel", "l2(3), max_norm(3, [0])"},
                                                {"bias", "l2(2), non_neg()"}}));
  const auto with_gamma = [&](auto options) {
    options.gamma_regularizer = l1;
    options.beta_regularizer = l2;
    options.gamma_constraint = c1;
    options.beta_constraint = c2;
    return options;
  };
  const Rules normalized{{"gamma", "l1(1), max_norm(1, [0])"}, {"beta", "l2(2), non_neg()"}};
  Rules batch = normalized;
  batch["moving_mean"] = batch["moving_variance"] = ", ";
  EXPECT_EQ(rules_of(BatchNormalization(with_gamma(BatchNormalizationOptions())), images), batch);
  EXPECT_EQ(rules_of(LayerNormalization(with_gamma(LayerNormalizationOptions())), images),
            normalized);
  EXPECT_EQ(
      rules_of(GroupNormalization(with_gamma(GroupNormalizationOptions{.groups = 2})), images),
      normalized);
  EXPECT_EQ(rules_of(PReLU({.alpha_regularizer = l1, .alpha_constraint = c1}), images),
            Rules({{"alpha", "l1(1), max_norm(1, [0])"}}));
  const Layer embedding = Embedding(
      5, 2, {.embeddings_regularizer = l1, .embeddings_constraint = c1, .row_sparse = false});
  EXPECT_EQ(rules_of(embedding, torch::tensor({1, 2})),
            Rules({{"embeddings", "l1(1), max_norm(1, [0])"}}));
}

TEST(RegularizersTest, EveryOptionOfRecurrentLayersAndAttentionReachesItsVariable) {
  using Rules = std::map<std::string, std::string>;
  const auto with_rules = [](auto options) {
    options.kernel_regularizer = regularizers::l1(1);
    options.bias_regularizer = regularizers::l2(2);
    options.kernel_constraint = constraints::max_norm(1);
    options.bias_constraint = constraints::non_neg();
    return options;
  };
  const auto recurrent = [&](auto options) {
    options.recurrent_regularizer = regularizers::l2(3);
    options.recurrent_constraint = constraints::max_norm(3);
    return with_rules(options);
  };
  const Tensor steps = torch::zeros({2, 3, 4});
  const Rules rules{{"kernel", "l1(1), max_norm(1, [0])"},
                    {"recurrent_kernel", "l2(3), max_norm(3, [0])"},
                    {"bias", "l2(2), non_neg()"}};
  EXPECT_EQ(rules_of(SimpleRNN(2, recurrent(SimpleRNNOptions())), steps), rules);
  EXPECT_EQ(rules_of(LSTM(2, recurrent(LSTMOptions())), steps), rules);
  EXPECT_EQ(rules_of(GRU(2, recurrent(GRUOptions())), steps), rules);
  const Layer attention = MultiHeadAttention(2, 2, with_rules(MultiHeadAttentionOptions()));
  Rules of_heads;
  for (const std::string part : {"query", "key", "value", "attention_output"}) {
    of_heads[part + "/kernel"] = "l1(1), max_norm(1, [0])";
    of_heads[part + "/bias"] = "l2(2), non_neg()";
  }
  EXPECT_EQ(rules_of(attention, LayerInputs{.tensors = {steps, steps}}), of_heads);
}

TEST(ActivityRegularizerTest, PenalizesWhatALayerGivesDividedByTheBatch) {
  const auto twice = regularizers::l2(2);
  const auto options = [&](auto given) {
    given.activity_regularizer = twice;
    return given;
  };
  const Tensor images = numbers({3, 4, 4, 2}).to(kFloat32);
  struct Example {
    Layer layer;
    Tensor input{};
  };
  const std::vector<Example> examples{
      {Dense(3, options(DenseOptions{.activation = activations::relu})), numbers({3, 2})},
      {Conv2D(8, 3, options(Conv2DOptions{.activation = activations::relu})), images},
      {Conv2DTranspose(2, 2, options(Conv2DTransposeOptions())), images},
      {DepthwiseConv2D(2, options(DepthwiseConv2DOptions())), images},
      {SeparableConv2D(2, 2, options(SeparableConv2DOptions())), images},
      {Embedding(5, 2, options(EmbeddingOptions())), torch::tensor({{1, 2}, {0, 3}, {4, 4}})},
      {ActivityRegularization({.l2 = 2}), numbers({3, 2})},
      {LSTM(2, options(LSTMOptions())), numbers({3, 4, 2})},
  };
  for (const Example& each : examples) {
    SCOPED_TRACE(each.layer.impl().identity().class_name);
    Fixture f;
    const Tensor output = each.layer(each.input, f.context);
    const std::vector<Tensor> added = f.context.take_losses();
    ASSERT_EQ(added.size(), 1u);
    const double expected = 2 * output.square().sum().item<double>() / 3;
    EXPECT_NEAR(added[0].item<double>(), expected, 1e-5 * expected);
    EXPECT_TRUE(f.context.take_losses().empty());
  }
}

// Keras gives the regularizer to the products in the layer, and looks at its outputs too.
TEST(ActivityRegularizerTest, PenalizesTheProductsOfMultiHeadAttention) {
  const Tensor x = numbers({3, 4, 2});
  for (const bool with_scores : {false, true}) {
    Fixture f;
    const Layer layer = MultiHeadAttention(
        2, 3,
        {.activity_regularizer = regularizers::l2(2), .return_attention_scores = with_scores});
    const LayerOutputs outputs = layer({.tensors = {x, x}}, f.context);
    double expected = 0;
    for (const std::string name : {"query", "key", "value"}) {
      const std::string part = "multi_head_attention/" + name;
      const Tensor kernel = f.store.value(part + "/kernel"), bias = f.store.value(part + "/bias");
      expected += 2 * (x.matmul(kernel.flatten(1)) + bias.flatten()).square().sum().item<double>();
    }
    expected += 4 * outputs.tensors[0].square().sum().item<double>();
    if (with_scores) expected += 2 * outputs.tensors[1].square().sum().item<double>();
    double found = 0;
    for (const Tensor& loss : f.context.take_losses()) found += loss.item<double>();
    EXPECT_NEAR(found, expected / 3, 1e-12 * expected);
  }
}

// Sequential may run a pooling in front of the relu, which computes no relu of the whole image.
TEST(ActivityRegularizerTest, IsThatOfTheConvolutionInFrontOfAPooling) {
  const Tensor images = numbers({2, 8, 8, 1}).to(kFloat32);
  const Layer conv = Conv2D(8, 3,
                            {.activation = activations::relu,
                             .activity_regularizer = regularizers::l1(1),
                             .name = "conv"});
  Fixture alone, followed;
  const double expected = conv(images, alone.context).abs().sum().item<double>() / 2;
  (void)Sequential({conv, MaxPooling2D()})(images, followed.context);
  const std::vector<Tensor> added = followed.context.take_losses();
  ASSERT_EQ(added.size(), 1u);
  EXPECT_NEAR(added[0].item<double>(), expected, 1e-4 * expected);
}

TEST(ActivityRegularizerTest, NoRowsGiveNoPenaltyAndAStepForgetsThatOfTheLast) {
  Fixture f;
  const Layer layer = ActivityRegularization({.l1 = 1, .l2 = 1});
  (void)layer(torch::ones({2, 3}), f.context);
  f.context.begin_step(true, 1, 0);
  (void)layer(torch::ones({0, 3}), f.context);
  (void)layer(torch::ones({2, 3}, kBFloat16), f.context);
  const std::vector<Tensor> added = f.context.take_losses();
  ASSERT_EQ(added.size(), 2u);
  EXPECT_EQ(number_of(added[0]), 0);
  EXPECT_EQ(number_of(added[1]), 6);
  EXPECT_EQ(added[1].scalar_type(), kFloat32);
}

TEST(ActivityRegularizerTest, AnAddedLossIsAFloatingScalar) {
  Fixture f;
  for (const Tensor& bad : {Tensor(), torch::ones({1}), torch::ones({}, at::kLong)}) {
    EXPECT_THAT(error_of([&] { f.context.add_loss(bad); }).message(),
                HasSubstr("add_loss: the loss is"));
  }
}

}  // namespace
}  // namespace muster::inline v0_1
