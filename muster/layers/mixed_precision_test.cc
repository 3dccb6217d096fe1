#include "muster/layers/mixed_precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "muster/base/cpu_features.h"
#include "muster/layers/activation_layers.h"
#include "muster/layers/attention.h"
#include "muster/layers/batch_normalization.h"
#include "muster/layers/bidirectional.h"
#include "muster/layers/convolution.h"
#include "muster/layers/dense.h"
#include "muster/layers/dropout.h"
#include "muster/layers/embedding.h"
#include "muster/layers/functional.h"
#include "muster/layers/internal/bfloat16.h"
#include "muster/layers/internal/test_layers.h"
#include "muster/layers/layer_normalization.h"
#include "muster/layers/merge.h"
#include "muster/layers/noise.h"
#include "muster/layers/pooling.h"
#include "muster/layers/recompute.h"
#include "muster/layers/recurrent.h"
#include "muster/layers/sequential.h"
#include "muster/layers/testing/allow_slow_bfloat16.h"
#include "muster/layers/unary_layer.h"
#include "muster/tensor/gradient_destination.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::AllOf;
using testing::AllowSlowBfloat16;
using testing::Fixture;
using ::testing::HasSubstr;
using testing::numbers;

// Rounding to bfloat16, of 8 binary digits, is off by at most this share of the number.
constexpr double kRounding = 1.0 / 256;

Tensor rounded(const Tensor& x) { return x.to(kBFloat16).to(kFloat32); }

// Whole numbers of -3 to 3: bfloat16 holds them exactly, and float32 every sum of their products
// here.
Tensor whole_numbers(at::IntArrayRef shape, double phase = 0.3) {
  return numbers(shape, phase).mul(3).round().to(kFloat32);
}

// Calls a layer that takes one tensor, or two, with the same one twice, and remembers its output
// and all gradients of sum(result * factors).
struct Trial {
  Fixture fixture;
  Tensor input, result;
  std::vector<Tensor> gradients;  // of the variables

  Trial(const Layer& layer, const Tensor& x, bool whole = false, size_t inputs = 1)
      : input(x.detach().clone()) {
    input.requires_grad_(x.is_floating_point());
    const auto call = [&] {
      fixture.context.begin_step(true, 2, 0);
      const std::vector<Tensor> given(inputs, input);
      return layer({.tensors = given}, fixture.context).tensors[0];
    };
    call();
    if (whole) make_variables_whole();
    result = call();
    const Tensor factors = whole ? whole_numbers(result.sizes(), 1.7)
                                 : numbers(result.sizes(), 1.7).to(result.scalar_type());
    (result * factors).sum().backward();
    for (const auto& variable : fixture.store.variables()) {
      if (variable->value().requires_grad()) gradients.push_back(variable->value().grad());
    }
  }

 private:
  void make_variables_whole() {
    const at::NoGradGuard no_grad;
    double phase = 0.1;
    for (const auto& variable : fixture.store.variables()) {
      Tensor value = variable->value();
      value.copy_(whole_numbers(value.sizes(), phase += 0.37));
    }
  }
};

struct MixedExample {
  Layer layer;
  Shape shape{};
};

std::vector<MixedExample> products() {
  const auto same = Padding::kSame;
  return {
      {Dense(5), {4, 7}},
      {Dense(5, {.use_bias = false}), {2, 3, 7}},
      {Conv1D(4, 2, {.padding = same, .dilation_rate = 2, .groups = 2}), {2, 5, 2}},
      {Conv2D(4, 3, {.strides = 2, .padding = same}), {2, 5, 4, 2}},
      {Conv3D(2, 2, {.strides = 2, .padding = same}), {2, 3, 4, 3, 2}},
      {Conv2DTranspose(2, 3, {.strides = 2, .padding = same}), {2, 3, 2, 2}},
      {DepthwiseConv2D(3, {.padding = same, .depth_multiplier = 2}), {2, 4, 3, 2}},
  };
}

// Products of whole numbers are exact, and so is their sum in float32: bfloat16 rounds once.
TEST(MixedPrecision, RoundsAProductOnceAndItsGradientsOnce) {
  const AllowSlowBfloat16 anyway;
  for (const MixedExample& each : products()) {
    SCOPED_TRACE(each.layer.impl().identity().class_name);
    const Tensor x = whole_numbers(each.shape);
    const Trial exact(each.layer, x, /*whole=*/true);
    const Trial mixed(mixed_precision("bfloat16", each.layer), x, /*whole=*/true);
    EXPECT_EQ(mixed.result.scalar_type(), kFloat32);
    EXPECT_TRUE(mixed.result.equal(rounded(exact.result)));
    EXPECT_TRUE(mixed.input.grad().equal(rounded(exact.input.grad())));
    ASSERT_EQ(mixed.gradients.size(), exact.gradients.size());
    for (size_t i = 0; i < exact.gradients.size(); ++i) {
      EXPECT_EQ(mixed.gradients[i].scalar_type(), kFloat32);
      EXPECT_TRUE(mixed.gradients[i].equal(rounded(exact.gradients[i]))) << i;
    }
  }
}

// |round(x') round(w') - x w| <= (2 e + e^2) |x| |w| for each product, with e of the rounding; the
// sum is rounded once more.
TEST(MixedPrecision, IsOffByNoMoreThanItsRoundings) {
  const AllowSlowBfloat16 anyway;
  const double bound = 3 * kRounding + 3 * kRounding * kRounding + 1e-5;
  const Tensor x = numbers({6, 40}).to(kFloat32);
  const Layer layer = Dense(9, {.bias_initializer = initializers::random_normal(0, 1)});
  const Trial mixed(mixed_precision("bfloat16", layer), x);
  const Tensor kernel = mixed.fixture.store.value("dense/kernel").detach().to(kFloat64);
  const Tensor bias = mixed.fixture.store.value("dense/bias").detach().to(kFloat64);
  const Tensor wide = x.to(kFloat64), factors = numbers({6, 9}, 1.7);
  const auto check = [&](const Tensor& found, const Tensor& exact, const Tensor& sizes) {
    EXPECT_FALSE(found.to(kFloat64).equal(exact));
    EXPECT_TRUE((found - exact).abs().le(sizes * bound).all().item<bool>());
  };
  check(mixed.result.detach(), wide.mm(kernel) + bias, wide.abs().mm(kernel.abs()) + bias.abs());
  check(mixed.gradients[0], wide.t().mm(factors), wide.abs().t().mm(factors.abs()));
  check(mixed.gradients[1], factors.sum(0), factors.abs().sum(0));
  check(mixed.input.grad(), factors.mm(kernel.t()), factors.abs().mm(kernel.abs().t()));
}

std::vector<MixedExample> other_layers() {
  return {
      {SeparableConv2D(3, 2, {.activation = activations::gelu}), {2, 4, 3, 2}},
      {SimpleRNN(3, {.dropout = 0.3, .recurrent_dropout = 0.3}), {2, 4, 3}},
      {LSTM(3, {.return_sequences = true}), {2, 4, 3}},
      {LSTM(3, {.dropout = 0.3, .recurrent_dropout = 0.3}), {2, 4, 3}},
      {GRU(3), {2, 4, 3}},
      {GRU(3, {.recurrent_dropout = 0.3, .reset_after = false}), {2, 4, 3}},
      {Bidirectional(LSTM(3, {.return_sequences = true})), {2, 4, 3}},
      {PReLU(), {2, 3, 4}},
      {LayerNormalization(), {2, 3, 4}},
      {GroupNormalization({.groups = 2}), {2, 3, 2, 4}},
      {BatchNormalization(), {6, 4}},
      {UnitNormalization(), {3, 5}},
      {Dropout(0.3), {3, 5}},
      {GaussianNoise(0.5), {3, 5}},
      {Softmax(1), {2, 3, 4}},
      {Dense(4, {.activation = activations::softmax}), {3, 5}},
      {Sequential({Conv2D(4, 3, {.activation = activations::relu}), MaxPooling2D()}), {2, 6, 6, 2}},
      {GlobalAveragePooling2D(), {2, 3, 3, 2}},
      {AveragePooling2D(), {2, 4, 4, 2}},
  };
}

// None of these rounds a number more than sixteen times on its way; they draw the same numbers.
TEST(MixedPrecision, EveryLayerTakesPart) {
  const AllowSlowBfloat16 anyway;
  const auto is_near = [](const Tensor& found, const Tensor& expected) {
    return (found - expected).abs().max().item<double>() <=
           16 * kRounding * expected.abs().max().item<double>();
  };
  for (const MixedExample& each : other_layers()) {
    SCOPED_TRACE(each.layer.impl().identity().class_name);
    // A bias would have no gradient in front of a normalization, or of a softmax.
    const Layer model = Sequential({Dense(each.shape.back(), {.use_bias = false}), each.layer});
    const Tensor x = numbers(each.shape).to(kFloat32);
    const Trial exact(model, x), mixed(mixed_precision("mixed_bfloat16", model), x);
    EXPECT_EQ(mixed.result.scalar_type(), kFloat32);
    EXPECT_TRUE(is_near(mixed.result, exact.result));
    EXPECT_TRUE(is_near(mixed.input.grad(), exact.input.grad()));
    EXPECT_EQ(mixed.fixture.store.names(), exact.fixture.store.names());
    ASSERT_EQ(mixed.gradients.size(), exact.gradients.size());
    for (size_t i = 0; i < exact.gradients.size(); ++i) {
      EXPECT_EQ(mixed.gradients[i].scalar_type(), kFloat32);
      EXPECT_TRUE(is_near(mixed.gradients[i], exact.gradients[i])) << i;
    }
    for (const auto& variable : mixed.fixture.store.variables())
      EXPECT_EQ(variable->value().scalar_type(), kFloat32) << variable->name();
  }
}

TEST(MixedPrecision, AttentionTakesPart) {
  const AllowSlowBfloat16 anyway;
  const std::vector<Layer> layers = {
      Attention({.use_scale = true}),
      MultiHeadAttention(2, 3, {.value_dim = 2}),
      MultiHeadAttention(2, 3, {.dropout = 0.3, .use_causal_mask = true}),
      Dot(2),
  };
  const Tensor x = numbers({2, 4, 3}).to(kFloat32);
  for (const Layer& layer : layers) {
    SCOPED_TRACE(layer.impl().identity().class_name);
    const Trial exact(layer, x, false, 2), mixed(mixed_precision("bfloat16", layer), x, false, 2);
    EXPECT_TRUE(torch::allclose(mixed.result, exact.result, 16 * kRounding, 16 * kRounding));
    EXPECT_FALSE(mixed.result.equal(exact.result));
    for (size_t i = 0; i < exact.gradients.size(); ++i) {
      EXPECT_EQ(mixed.gradients[i].scalar_type(), kFloat32);
      EXPECT_TRUE(
          torch::allclose(mixed.gradients[i], exact.gradients[i], 16 * kRounding, 16 * kRounding));
    }
  }
}

// Returns its input, and reports its dtype.
class WatchImpl final : public UnaryLayerImpl {
 public:
  WatchImpl(LayerPrecision precision, std::vector<DType>* seen)
      : UnaryLayerImpl("watch", ""), precision_(precision), seen_(seen) {}
  Tensor call(const Tensor& input, CallContext&) const override {
    seen_->push_back(input.scalar_type());
    return input;
  }
  LayerPrecision precision() const override { return precision_; }

 private:
  LayerPrecision precision_;
  std::vector<DType>* seen_;
};

TEST(MixedPrecision, ActivationsBetweenLayersAreBfloat16) {
  const AllowSlowBfloat16 anyway;
  std::vector<DType> seen;
  const auto watch = [&](LayerPrecision precision = LayerPrecision::kAsGiven) {
    return Layer(std::make_shared<WatchImpl>(precision, &seen));
  };
  const Layer model = mixed_precision(
      "bfloat16",
      Sequential({watch(), Dense(4), watch(), BatchNormalization(), watch(), ReLU(), watch(),
                  watch(LayerPrecision::kFloat32), watch(), mixed_precision("float32", Dense(3)),
                  watch(), Dense(2), watch(), Softmax(), watch()}));
  Fixture fixture;
  EXPECT_EQ(model(numbers({2, 5}).to(kFloat32), fixture.context).scalar_type(), kFloat32);
  const auto f = kFloat32, b = kBFloat16;
  EXPECT_EQ(seen, (std::vector<DType>{f, b, b, b, f, f, f, b, f}));
}

// Mean and variance are computed from the numbers in float32, not from sums in bfloat16.
TEST(MixedPrecision, BatchStatisticsAreFloat32) {
  const AllowSlowBfloat16 anyway;
  const Tensor x = rounded(numbers({4000, 2}).to(kFloat32) + 3);
  const Layer layer = BatchNormalization({.momentum = 0});
  Fixture fixture;
  fixture.context.begin_step(true, 0, 0);
  mixed_precision("bfloat16", layer)(x.to(kBFloat16), fixture.context);
  const Tensor wide = x.to(kFloat64);
  EXPECT_TRUE(torch::allclose(fixture.store.value("batch_normalization/moving_mean").to(kFloat64),
                              wide.mean(0), 1e-5));
  EXPECT_TRUE(
      torch::allclose(fixture.store.value("batch_normalization/moving_variance").to(kFloat64),
                      wide.var(0, /*unbiased=*/false), 1e-4));
}

TEST(MixedPrecision, RecomputesTheSameBits) {
  const AllowSlowBfloat16 anyway;
  const Layer block = Sequential({Dense(6), BatchNormalization(), Dropout(0.3), Dense(4)});
  const Tensor x = numbers({8, 5}).to(kFloat32);
  const Trial plain(mixed_precision("bfloat16", Sequential({block, Dense(2)})), x);
  for (const Layer& model :
       {mixed_precision("bfloat16", Sequential({Recompute(block), Dense(2)})),
        mixed_precision("bfloat16", Recompute(Sequential({block, Dense(2)}))),
        Recompute(mixed_precision("bfloat16", Sequential({block, Dense(2)})))}) {
    const Trial again(model, x);
    EXPECT_TRUE(again.result.equal(plain.result));
    EXPECT_TRUE(again.input.grad().equal(plain.input.grad()));
    ASSERT_EQ(again.gradients.size(), plain.gradients.size());
    for (size_t i = 0; i < plain.gradients.size(); ++i)
      EXPECT_TRUE(again.gradients[i].equal(plain.gradients[i])) << i;
  }
}

// Memory of one parameter for its gradient.
struct OneDestination final : GradientDestinations {
  OneDestination(const Tensor& parameter, const Tensor& place)
      : parameter(parameter), place(place) {}
  Tensor take(const Tensor& asked) override {
    return asked.is_same(parameter) ? place.detach() : Tensor();
  }
  Tensor parameter, place;
};

TEST(MixedPrecision, WritesTheGradientWhereItIsWanted) {
  const Tensor weight = whole_numbers({7, 3}).requires_grad_();
  const Tensor factors = whole_numbers({7, 3}, 0.9).to(kBFloat16);
  OneDestination wanted(weight, torch::full({7, 3}, -1.0));
  {
    const GradientDestinations::Scope here(wanted);
    (internal::narrowed_weight(weight) * factors).sum().backward();
  }
  EXPECT_EQ(weight.grad().data_ptr(), wanted.place.data_ptr());
  EXPECT_TRUE(wanted.place.equal(factors.to(kFloat32)));
}

TEST(MixedPrecision, TakesNoRowsAndIdsAndState) {
  const AllowSlowBfloat16 anyway;
  const Layer words =
      mixed_precision("bfloat16", Sequential({Embedding(9, 4), LSTM(3, {.return_state = true})}));
  Fixture fixture;
  const LayerOutputs first =
      words({.tensors = {torch::tensor({1, 2, 3, 4}).view({2, 2})}}, fixture.context);
  EXPECT_EQ(first.tensors[0].scalar_type(), kFloat32);
  EXPECT_EQ(first.state.at(1).scalar_type(), kFloat32);
  EXPECT_EQ(words(torch::zeros({0, 2}, kInt64), fixture.context).sizes(), (Shape{0, 3}));
}

// A graph is built, and a summary printed, on any machine.
TEST(MixedPrecision, StandsInAGraph) {
  const SymbolicTensor x = Input({6});
  const Layer inner = Sequential({Dense(4, {.activation = activations::relu}), Dense(2)});
  const Functional model({x}, {mixed_precision("bfloat16", inner)(x)});
  EXPECT_EQ(model.count_params(), 6 * 4 + 4 + 4 * 2 + 2);
  EXPECT_EQ(mixed_precision("bfloat16", inner).summary({x}), inner.summary({x}));
  const AllowSlowBfloat16 anyway;
  const Trial graph(mixed_precision("bfloat16", model), numbers({3, 6}).to(kFloat32));
  const Trial chain(mixed_precision("bfloat16", inner), numbers({3, 6}).to(kFloat32));
  EXPECT_TRUE(graph.result.equal(chain.result));
}

TEST(MixedPrecision, HasTheVariablesOfFloat32) {
  const AllowSlowBfloat16 anyway;
  const Tensor x = numbers({12, 10}).to(kFloat32);
  const Layer model = Sequential({Dense(16), BatchNormalization(), Dense(2)});
  const Trial wide(mixed_precision("float32", model), x),
      mixed(mixed_precision("bfloat16", model), x);
  EXPECT_EQ(mixed.fixture.store.names(), wide.fixture.store.names());
  EXPECT_FALSE(mixed.result.equal(wide.result));
  for (const auto& variable : mixed.fixture.store.variables())
    EXPECT_EQ(variable->value().scalar_type(), kFloat32) << variable->name();
}

TEST(MixedPrecision, Float32IsTheLayerItself) {
  const Tensor x = numbers({3, 6}).to(kFloat32);
  const Trial plain(Dense(4), x), same(mixed_precision("float32", Dense(4)), x);
  EXPECT_TRUE(same.result.equal(plain.result));
  const Trial wide(mixed_precision("float32", Dense(4)), numbers({3, 6}));
  EXPECT_EQ(wide.result.scalar_type(), kFloat64);
}

TEST(MixedPrecision, RefusesAMachineWithoutInstructions) {
  Fixture fixture;
  const auto call = [&] {
    return mixed_precision("bfloat16", Dense(4))(numbers({3, 6}).to(kFloat32), fixture.context);
  };
  if (cpu_features().multiplies_bfloat16()) {
    EXPECT_EQ(call().sizes(), (Shape{3, 4}));
    return;
  }
  const Error error = error_of(call);
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(error.message(),
            "mixed_precision: the policy is \"bfloat16\", and this processor has no instructions "
            "for it, neither AVX512-BF16 nor AMX-BF16; it has " +
                describe(cpu_features()));
  EXPECT_THAT(error.hint(), HasSubstr("take mixed_precision(\"float32\", ...)"));
  EXPECT_TRUE(fixture.store.variables().empty());
}

TEST(MixedPrecision, RefusesOtherPolicies) {
  const auto refused = [](const char* policy) {
    return error_of([&] { mixed_precision(policy, Dense(1)); });
  };
  EXPECT_EQ(refused("bfloat61").message(), "mixed_precision: the policy is \"bfloat61\"");
  EXPECT_THAT(refused("bfloat61").hint(), HasSubstr("did you mean \"bfloat16\"?"));
  EXPECT_THAT(refused("mixed_bfloat").hint(), HasSubstr("did you mean \"mixed_bfloat16\"?"));
  EXPECT_THAT(refused("mixed_float16").hint(), HasSubstr("bfloat16 is as small"));
  EXPECT_THAT(refused("fast").hint(), AllOf(HasSubstr("\"bfloat16\""), HasSubstr("\"float32\"")));
  const AllowSlowBfloat16 anyway;
  Fixture fixture;
  EXPECT_THAT(message_of([&] {
                mixed_precision("bfloat16", Dense(1))(numbers({2, 3}), fixture.context);
              }),
              HasSubstr("an input float64[2, 3]"));
}

}  // namespace
}  // namespace muster::inline v0_1
