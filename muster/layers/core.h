// The layers every model uses: Dense, Flatten, Dropout, Sequential.
// Thread safety: immutable values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/layers/activations.h"
#include "muster/layers/initializers.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// Options of Dense().
struct DenseOptions {
  // Of activations:: linear, relu, tanh, sigmoid, softmax.
  Activation activation = Activation::kLinear;
  bool use_bias = true;
  Initializer kernel_initializer = initializers::glorot_uniform();
  Initializer bias_initializer = initializers::zeros();
  std::string name;
};

// activation(input @ kernel + bias) over the last axis: [batch..., in] -> [batch..., units].
// Variables: "kernel" [in, units], "bias" [units], of the input's dtype, one of weights.
// Throws InvalidArgument for units < 1.
Layer Dense(int64_t units, DenseOptions options = {});

// [batch, ...] -> [batch, the product of the rest], rows in memory order; [batch] -> [batch, 1].
Layer Flatten(std::string name = {});

// In training, zeroes each element with probability `rate` and scales the others by 1 / (1 - rate);
// otherwise nothing. The mask is a function of (seed, step, replica, layer name). Throws
// InvalidArgument unless 0 <= rate < 1.
Layer Dropout(double rate, std::string name = {});

// The layers one after another. Layers inside a Sequential are named as if they stood alone. Where
// a Conv2D with relu is followed by MaxPooling2D, the relu runs after the pooling: the same values
// and gradients for a fraction of the work.
Layer Sequential(std::vector<Layer> layers);

}  // namespace muster::inline v0_1
