#include "muster/layers/activations.h"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/nearest.h"
#include "muster/layers/internal/wide.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

// From here on log(1 + exp(x)) is x in float64 too, and exp(x) is far from overflowing.
constexpr double kSoftplusIsLinear = 40;

// At the places where it bends, it has the derivative that Keras's has.
Tensor relu_of(const Activation& relu, const Tensor& x) {
  if (relu == Activation::kRelu) return at::relu(x);
  const bool bounded = std::isfinite(relu.max_value);
  if (!bounded && relu.threshold == 0 && relu.negative_slope != 0) {
    return at::leaky_relu(x, relu.negative_slope);
  }
  // Keras has relu6 in one piece, which is flat at 6; other bounds let gradients through.
  const bool is_relu6 = relu.threshold == 0 && relu.max_value == 6;
  Tensor y = is_relu6              ? at::hardtanh(x, 0, 6)
             : relu.threshold == 0 ? at::relu(x)
                                   : at::threshold(x, relu.threshold, 0);
  if (bounded && !is_relu6) y = y.clamp_max(relu.max_value);
  if (relu.negative_slope == 0) return y;
  return y - at::relu(relu.threshold - x) * relu.negative_slope;
}

// LibTorch's has the left-hand derivative at 0, Keras's the right-hand one.
Tensor selu_of(const Tensor& x) {
  constexpr double kScale = 1.0507009873554805;
  return at::where(x < 0, at::selu(x), x * kScale);
}

void check_softmax(const Activation& softmax, const Tensor& input) {
  if (input.dim() < 2) {
    throw invalid_argument(
        fmt::format("softmax: the input is {}", describe(input)),
        "the input must have at least two axes, of which the first is the batch");
  }
  if (softmax.axis < -input.dim() || softmax.axis >= input.dim()) {
    throw invalid_argument(
        fmt::format("softmax: axis is {}, of the input {}", softmax.axis, describe(input)),
        fmt::format("axis must be between {} and {}", -input.dim(), input.dim() - 1));
  }
}

double check_option(const char* function, const char* option, double value, double minimum) {
  if (std::isfinite(value) && value >= minimum) return value;
  throw invalid_argument(
      fmt::format("{}: {} is {}", function, option, value),
      fmt::format("{} must be finite{}", option, minimum == 0 ? " and at least 0" : ""));
}

using Named = std::pair<std::string_view, Activation>;

const std::vector<Named>& named_activations() {
  namespace a = activations;
  static const std::vector<Named> all = {
      {"linear", a::linear},
      {"relu", a::relu},
      {"relu6", a::relu6},
      {"leaky_relu", a::leaky_relu},
      {"elu", a::elu},
      {"selu", a::selu},
      {"gelu", a::gelu},
      {"swish", a::swish},
      {"silu", a::silu},
      {"mish", a::mish},
      {"sigmoid", a::sigmoid},
      {"hard_sigmoid", a::hard_sigmoid},
      {"tanh", a::tanh},
      {"softmax", a::softmax},
      {"log_softmax", a::log_softmax},
      {"softplus", a::softplus},
      {"softsign", a::softsign},
      {"exponential", a::exponential},
  };
  return all;
}

std::string hint_for(std::string_view name) {
  if (name == "prelu") return "prelu has weights: it is the layer PReLU()";
  std::vector<std::string> names;
  std::string list;
  for (const Named& each : named_activations()) {
    names.emplace_back(each.first);
    list += (list.empty() ? "" : ", ") + names.back();
  }
  const std::optional<std::string> meant = nearest(name, names);
  return (meant ? fmt::format("did you mean \"{}\"? ", *meant) : std::string()) + "there are " +
         list;
}

}  // namespace

Tensor Activation::operator()(const Tensor& input) const {
  switch (kind) {
    case Kind::kLinear:
      return input;
    case Kind::kRelu:
      return relu_of(*this, input);
    case Kind::kElu:
      return at::elu(input, alpha);
    case Kind::kSelu:
      return selu_of(input);
    case Kind::kGelu:
      return at::gelu(input, "none");
    case Kind::kGeluTanh:
      return at::gelu(input, "tanh");
    case Kind::kSwish:
      return at::silu(input);
    case Kind::kMish:
      return internal::in_float32(input, [](const Tensor& x) { return at::mish(x); });
    case Kind::kSigmoid:
      return at::sigmoid(input);
    case Kind::kHardSigmoid:
      return (input * 0.2 + 0.5).clamp(0, 1);
    case Kind::kTanh:
      return at::tanh(input);
    case Kind::kSoftmax:
      check_softmax(*this, input);
      return at::softmax(input, axis);
    case Kind::kLogSoftmax:
      check_softmax(*this, input);
      return at::log_softmax(input, axis);
    case Kind::kSoftplus:
      return at::softplus(input, 1, kSoftplusIsLinear);
    case Kind::kSoftsign:
      return input / (input.abs() + 1);
    case Kind::kExponential:
      return at::exp(input);
  }
  throw internal_error(fmt::format("unknown activation {}", static_cast<int>(kind)));
}

namespace activations {

Activation ReluOptions::activation() const {
  Activation made = Activation::kRelu;
  made.negative_slope = check_option("relu", "negative_slope", negative_slope, 0);
  made.threshold = check_option("relu", "threshold", threshold, 0);
  if (max_value) made.max_value = check_option("relu", "max_value", *max_value, 0);
  return made;
}

Activation LeakyReluOptions::activation() const {
  Activation made = Activation::kRelu;
  made.negative_slope = check_option("leaky_relu", "alpha", alpha, 0);
  return made;
}

Activation EluOptions::activation() const {
  Activation made = elu;
  made.alpha = check_option("elu", "alpha", alpha, std::numeric_limits<double>::lowest());
  return made;
}

Activation GeluOptions::activation() const {
  return {.kind = approximate ? Activation::Kind::kGeluTanh : Activation::Kind::kGelu};
}

Tensor apply(const Activation& activation, const Tensor& input) { return activation(input); }

}  // namespace activations

Activation activation(std::string_view name) {
  for (const Named& each : named_activations()) {
    if (each.first == name) return each.second;
  }
  throw invalid_argument(fmt::format("there is no activation \"{}\"", name), hint_for(name));
}

}  // namespace muster::inline v0_1
