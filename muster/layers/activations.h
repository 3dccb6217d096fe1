// Names activation functions for the options of layers: {.activation = relu}, or
// {.activation = activations::tanh}.
// Thread safety: values and pure functions.
#pragma once

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// kSoftmax is taken over the last axis.
enum class Activation { kLinear, kRelu, kTanh, kSigmoid, kSoftmax };

namespace activations {
inline constexpr Activation linear = Activation::kLinear;
inline constexpr Activation relu = Activation::kRelu;
inline constexpr Activation tanh = Activation::kTanh;
inline constexpr Activation sigmoid = Activation::kSigmoid;
inline constexpr Activation softmax = Activation::kSoftmax;

// Applies `activation` to every element.
Tensor apply(Activation activation, const Tensor& input);
}  // namespace activations

// These need no prefix. `tanh` stays in activations:: because <cmath> has a function of that name.
using activations::linear;
using activations::relu;
using activations::sigmoid;
using activations::softmax;

}  // namespace muster::inline v0_1
