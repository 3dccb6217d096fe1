// Dense, the fully connected layer. Thread safety: immutable values.
#pragma once

#include <cstdint>
#include <string>

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
// units]. A mask is passed on unchanged. Variables: "kernel" [in, units] and "bias" [units], of the
// input's dtype, which must be one of weights. Throws InvalidArgument for units < 1.
MUSTER_EXPORT Layer Dense(int64_t units, DenseOptions options = {});

}  // namespace muster::inline v0_1
