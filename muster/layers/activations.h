// Activation functions for the options of layers: {.activation = activations::relu}, or by name:
// {.activation = activation("relu")}. Called with a tensor they compute: activations::gelu(x).
// Called with parameters they return another function: activations::relu({.max_value = 6}). They
// have their own namespace, because programs have functions with these names. Thread safety: values
// and pure functions.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "muster/base/export.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// A function and its parameters. Functions with different parameters are not equal.
struct MUSTER_EXPORT Activation {
  // The function; activations:: below describes each.
  enum class Kind : uint8_t {
    kLinear,
    kRelu,
    kElu,
    kSelu,
    kGelu,
    kGeluTanh,
    kSwish,
    kMish,
    kSigmoid,
    kHardSigmoid,
    kTanh,
    kSoftmax,
    kLogSoftmax,
    kSoftplus,
    kSoftsign,
    kExponential,
  };

  Kind kind = Kind::kLinear;
  double negative_slope = 0;                                   // of kRelu
  double threshold = 0;                                        // of kRelu
  double max_value = std::numeric_limits<double>::infinity();  // of kRelu
  double alpha = 1;                                            // of kElu
  int64_t axis = -1;                                           // of kSoftmax, kLogSoftmax

  static const Activation kLinear, kRelu, kTanh, kSigmoid, kSoftmax;

  // Softmax and its logarithm depend on all elements of a vector, the others on one element.
  constexpr bool is_softmax() const { return kind == Kind::kSoftmax || kind == Kind::kLogSoftmax; }

  // Applies it to every element, or softmax to every vector along its axis. The result has the
  // shape and the dtype of the input. Throws InvalidArgument if softmax's axis does not exist in
  // the input, or if the input has fewer than two axes.
  Tensor operator()(const Tensor& input) const;

  friend constexpr bool operator==(const Activation&, const Activation&) = default;
};

inline constexpr Activation Activation::kLinear{};
inline constexpr Activation Activation::kRelu{.kind = Kind::kRelu};
inline constexpr Activation Activation::kTanh{.kind = Kind::kTanh};
inline constexpr Activation Activation::kSigmoid{.kind = Kind::kSigmoid};
inline constexpr Activation Activation::kSoftmax{.kind = Kind::kSoftmax};

namespace activations {

// Options of relu.
struct MUSTER_EXPORT ReluOptions {
  std::optional<double> max_value{};  // unset: no bound
  double negative_slope = 0;
  double threshold = 0;
  // Throws InvalidArgument for a value that is below 0 or not finite.
  Activation activation() const;
};
// Options of leaky_relu. The default is TensorFlow's for the function; the layer LeakyReLU has
// another default.
struct MUSTER_EXPORT LeakyReluOptions {
  double alpha = 0.2;
  // Throws InvalidArgument for a value that is below 0 or not finite.
  Activation activation() const;
};
// Options of elu.
struct MUSTER_EXPORT EluOptions {
  double alpha = 1;
  // Throws InvalidArgument for a value that is not finite.
  Activation activation() const;
};
// Options of gelu.
struct MUSTER_EXPORT GeluOptions {
  bool approximate = false;  // by tanh
  Activation activation() const;
};
// Options of softmax and log_softmax: an axis counted from the front, or below 0 from the back.
struct SoftmaxOptions {
  int64_t axis = -1;
};

// A function with parameters: the default ones, or those it is called with.
template <typename Options>
struct Configurable : Activation {
  constexpr explicit Configurable(const Activation& with_defaults) : Activation(with_defaults) {}
  using Activation::operator();
  Activation operator()(const Options& options) const {
    if constexpr (requires { options.activation(); }) {
      return options.activation();
    } else {
      Activation made = *this;
      made.axis = options.axis;
      return made;
    }
  }
};

// x.
inline constexpr Activation linear = Activation::kLinear;
// max_value for x >= max_value, x for x > threshold, else negative_slope * (x - threshold).
inline constexpr Configurable<ReluOptions> relu{Activation::kRelu};
// min(max(x, 0), 6).
inline constexpr Activation relu6{.kind = Activation::Kind::kRelu, .max_value = 6};
// x for x > 0, else alpha * x.
inline constexpr Configurable<LeakyReluOptions> leaky_relu{
    Activation{.kind = Activation::Kind::kRelu, .negative_slope = LeakyReluOptions().alpha}};
// x for x > 0, else alpha * (exp(x) - 1).
inline constexpr Configurable<EluOptions> elu{Activation{.kind = Activation::Kind::kElu}};
// 1.0507009873554805 * elu(x) with alpha 1.6732632423543772 (Klambauer et al., 2017).
inline constexpr Activation selu{.kind = Activation::Kind::kSelu};
// x * P(X <= x) of a standard normal X; approximate: x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715
// x^3))) (Hendrycks and Gimpel, 2016).
inline constexpr Configurable<GeluOptions> gelu{Activation{.kind = Activation::Kind::kGelu}};
// x * sigmoid(x); silu is another name.
inline constexpr Activation swish{.kind = Activation::Kind::kSwish};
inline constexpr Activation silu = swish;
// x * tanh(softplus(x)).
inline constexpr Activation mish{.kind = Activation::Kind::kMish};
// 1 / (1 + exp(-x)).
inline constexpr Activation sigmoid = Activation::kSigmoid;
// 0.2 * x + 0.5, clipped to [0, 1], as in Keras 2; Keras 3 differs.
inline constexpr Activation hard_sigmoid{.kind = Activation::Kind::kHardSigmoid};
inline constexpr Activation tanh = Activation::kTanh;
// exp(x) / sum(exp(x)) along the axis.
inline constexpr Configurable<SoftmaxOptions> softmax{Activation::kSoftmax};
// The logarithm of softmax.
inline constexpr Configurable<SoftmaxOptions> log_softmax{
    Activation{.kind = Activation::Kind::kLogSoftmax}};
// log(1 + exp(x)).
inline constexpr Activation softplus{.kind = Activation::Kind::kSoftplus};
// x / (1 + |x|).
inline constexpr Activation softsign{.kind = Activation::Kind::kSoftsign};
// exp(x).
inline constexpr Activation exponential{.kind = Activation::Kind::kExponential};

// Applies `activation` to `input`.
MUSTER_EXPORT Tensor apply(const Activation& activation, const Tensor& input);
}  // namespace activations

// Returns the function with that name in the namespace activations, with default parameters:
// activation("gelu"). Throws InvalidArgument for an unknown name; the hint has the nearest one.
MUSTER_EXPORT Activation activation(std::string_view name);

}  // namespace muster::inline v0_1
