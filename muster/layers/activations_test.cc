#include "muster/layers/activations.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "muster/layers/internal/test_layers.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

struct Formula {
  std::string name{};
  Activation activation;
  std::function<double(double)> value{};
};

double leaky(double x, double slope) { return x > 0 ? x : slope * x; }
double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
double softplus_of(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

// The formulas that Keras 2 documents, written out once more.
std::vector<Formula> formulas() {
  namespace a = activations;
  constexpr double kAlpha = 1.67326324, kScale = 1.05070098;
  return {
      {"linear", a::linear, [](double x) { return x; }},
      {"relu", a::relu, [](double x) { return std::max(x, 0.0); }},
      {"relu6", a::relu6, [](double x) { return std::min(std::max(x, 0.0), 6.0); }},
      {"leaky_relu", a::leaky_relu, [](double x) { return leaky(x, 0.2); }},
      {"elu", a::elu, [](double x) { return x > 0 ? x : std::exp(x) - 1; }},
      {"selu", a::selu,
       [=](double x) { return kScale * (x > 0 ? x : kAlpha * (std::exp(x) - 1)); }},
      {"gelu", a::gelu, [](double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2))); }},
      {"swish", a::swish, [](double x) { return x * sigmoid_of(x); }},
      {"silu", a::silu, [](double x) { return x * sigmoid_of(x); }},
      {"mish", a::mish, [](double x) { return x * std::tanh(softplus_of(x)); }},
      {"sigmoid", a::sigmoid, sigmoid_of},
      {"hard_sigmoid", a::hard_sigmoid,
       [](double x) { return std::min(std::max(0.2 * x + 0.5, 0.0), 1.0); }},
      {"tanh", a::tanh, [](double x) { return std::tanh(x); }},
      {"softplus", a::softplus, softplus_of},
      {"softsign", a::softsign, [](double x) { return x / (1 + std::abs(x)); }},
      {"exponential", a::exponential, [](double x) { return std::exp(x); }},
      {"", a::relu({.max_value = 1.5}), [](double x) { return std::min(std::max(x, 0.0), 1.5); }},
      {"", a::relu({.max_value = 2, .negative_slope = 0.25, .threshold = 1}),
       [](double x) { return x >= 2  ? 2
                             : x > 1 ? x
                                     : 0.25 * (x - 1); }},
      {"", a::relu(a::ReluOptions{.threshold = 1}), [](double x) { return x > 1 ? x : 0; }},
      {"", a::relu({.max_value = 2, .threshold = 1}),
       [](double x) { return x >= 2  ? 2
                             : x > 1 ? x
                                     : 0; }},
      {"", a::relu(a::ReluOptions{.negative_slope = 0.5}), [](double x) { return leaky(x, 0.5); }},
      {"", a::leaky_relu({.alpha = 0.3}), [](double x) { return leaky(x, 0.3); }},
      {"", a::elu({.alpha = 0.7}), [](double x) { return x > 0 ? x : 0.7 * (std::exp(x) - 1); }},
      {"", a::gelu({.approximate = true}),
       [](double x) {
         return x / 2 *
                (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
       }},
  };
}

const std::vector<double>& points() {
  static const std::vector<double> all{-30, -7.5, -3.1, -2,  -1.2, -0.4, -1e-3, 1e-3,
                                       0.4, 1.2,  1.8,  2.6, 5.5,  6.5,  30};
  return all;
}

TEST(Activation, ComputesTheFormulaOfKeras) {
  const Tensor x = torch::tensor(points(), at::kDouble);
  for (const Formula& each : formulas()) {
    const Tensor y = each.activation(x);
    const Tensor single = each.activation(x.to(at::kFloat)).to(at::kDouble);
    for (size_t i = 0; i < points().size(); ++i) {
      const double expected = each.value(points()[i]);
      const double tolerance = 1e-12 * std::max(1.0, std::abs(expected));
      // The constants of selu are given to eight digits.
      const double digits = each.name == "selu" ? 1e-8 * std::abs(expected) : 0;
      EXPECT_NEAR(y[i].item<double>(), expected, tolerance + digits)
          << each.name << " of " << points()[i];
      EXPECT_NEAR(single[i].item<double>(), expected, 2e-6 * std::max(1.0, std::abs(expected)))
          << each.name << " of " << points()[i];
    }
  }
}

TEST(Activation, HasTheGradientOfItsFormula) {
  for (const Formula& each : formulas()) {
    Tensor x = torch::tensor(points(), at::kDouble).requires_grad_();
    (each.activation(x) * 1).sum().backward();
    for (size_t i = 0; i < points().size(); ++i) {
      constexpr double kStep = 1e-5;
      const double at = points()[i];
      const double expected = (each.value(at + kStep) - each.value(at - kStep)) / (2 * kStep);
      EXPECT_NEAR(x.grad()[i].item<double>(), expected, 1e-6 * std::max(1.0, std::abs(expected)))
          << each.name << " of " << at;
    }
  }
}

TEST(Activation, IsFoundByItsName) {
  for (const Formula& each : formulas()) {
    if (each.name.empty()) continue;
    EXPECT_EQ(activation(each.name), each.activation) << each.name;
  }
  EXPECT_EQ(activation("softmax"), activations::softmax);
  EXPECT_EQ(activation("log_softmax"), activations::log_softmax);
  EXPECT_FALSE(activation("relu6") == activation("relu"));
  const Error error = error_of([] { activation("sigmiod"); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(error.message(), "there is no activation \"sigmiod\"");
  EXPECT_EQ(error.hint().substr(0, 46), "did you mean \"sigmoid\"? there are linear, relu");
  EXPECT_EQ(error_of([] { activation("prelu"); }).hint(),
            "prelu has weights: it is the layer PReLU()");
}

TEST(Softmax, IsTakenAlongItsAxis) {
  const Tensor x = testing::numbers({2, 3, 4}) * 3;
  for (const int64_t axis : {-1, 1, 2, -2}) {
    const Tensor powers = x.exp();
    const Tensor expected = powers / powers.sum(axis, true);
    EXPECT_TRUE(torch::allclose(activations::softmax({.axis = axis})(x), expected, 1e-12));
    EXPECT_TRUE(torch::allclose(activations::log_softmax({.axis = axis})(x), expected.log(), 1e-9));
  }
  EXPECT_EQ(message_of([&] { activations::softmax({.axis = 3})(x); }),
            "softmax: axis is 3, of the input float64[2, 3, 4]");
  EXPECT_EQ(message_of([] { activations::softmax(torch::zeros({5})); }),
            "softmax: the input is float32[5]");
}

TEST(Activation, RefusesParametersOutOfRange) {
  namespace a = activations;
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(message_of([] { a::relu({.max_value = -1}); }), "relu: max_value is -1");
  EXPECT_EQ(message_of([] { a::relu(a::ReluOptions{.negative_slope = -0.5}); }),
            "relu: negative_slope is -0.5");
  EXPECT_EQ(message_of([] { a::relu(a::ReluOptions{.threshold = std::nan("")}); }),
            "relu: threshold is nan");
  EXPECT_EQ(message_of([] { a::leaky_relu({.alpha = -1}); }), "leaky_relu: alpha is -1");
  EXPECT_EQ(message_of([=] { a::elu({.alpha = infinity}); }), "elu: alpha is inf");
}

TEST(Activation, TakesBfloat16AndLetsNotANumberThrough) {
  const Tensor x = torch::tensor({-1.5, 0.25, 3.0}, at::kFloat);
  const Tensor odd = torch::full({2}, std::nan(""), at::kDouble);
  for (const Formula& each : formulas()) {
    const Tensor y = each.activation(x.to(kBFloat16));
    EXPECT_EQ(y.scalar_type(), kBFloat16);
    EXPECT_TRUE(torch::allclose(y.to(at::kFloat), each.activation(x), 0.02, 0.02)) << each.name;
    EXPECT_TRUE(torch::isnan(each.activation(odd)).all().item<bool>()) << each.name;
  }
}

}  // namespace
}  // namespace muster::inline v0_1
