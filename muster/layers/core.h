// The layers every model uses: Dense, Flatten, Dropout, Sequential.
// Thread safety: immutable values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/layers/activations.h"
#include "muster/layers/initializers.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// Options of Dense().
struct DenseOptions {
  Activation activation = Activation::kLinear;
  bool use_bias = true;
  Initializer kernel_initializer = initializers::glorot_uniform();
  Initializer bias_initializer = initializers::zeros();
  Regularizer kernel_regularizer{};
  Regularizer bias_regularizer{};
  Regularizer activity_regularizer{};
  Constraint kernel_constraint{};
  Constraint bias_constraint{};
  std::string name{};
};

// Computes activation(input @ kernel + bias) over the last axis: [batch..., in] -> [batch...,
// units]. A mask stays as it is. Variables: "kernel" [in, units], "bias" [units], of the input's
// dtype, one of weights. Throws InvalidArgument for units < 1.
MUSTER_EXPORT Layer Dense(int64_t units, DenseOptions options = {});

// Reshapes [batch, ...] to [batch, the product of the rest], rows in memory order, and [batch] to
// [batch, 1].
MUSTER_EXPORT Layer Flatten(std::string name = {});

// Options of Dropout().
struct DropoutOptions {
  // The shape of what is drawn, with the batch: 1 draws once for all of an axis, -1 (Keras's None)
  // for each of its elements, as the axis's size does. {-1, 1, -1} drops the same features in all
  // steps of an example. Empty: each element for itself.
  std::vector<int64_t> noise_shape{};
  std::string name{};
};

// In training it zeroes each element with probability `rate` and scales the others by 1 / (1 -
// rate); otherwise it does nothing. Which elements is a function of (seed, step, replica, layer
// name). A mask of steps stays as it is. Throws InvalidArgument unless 0 <= rate < 1 and for other
// sizes in noise_shape, and when called in training, for an input that does not fit it.
MUSTER_EXPORT Layer Dropout(double rate, DropoutOptions options = {});

// Calls the layers one after another. What one gives, tensors and masks, the next one takes; a
// state goes into the first layer and comes out of the last one. Layers inside a Sequential are
// named as if they stood alone. Where a Conv2D with relu is followed by MaxPooling2D, the relu runs
// after the pooling, which gives the same values and gradients for a fraction of the work.
MUSTER_EXPORT Layer Sequential(std::vector<Layer> layers);

}  // namespace muster::inline v0_1
