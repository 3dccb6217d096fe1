// Normalizes over the batch.
// Thread safety: immutable values.
#pragma once

#include <string>

#include "muster/base/export.h"
#include "muster/layers/initializers.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// Options of BatchNormalization().
struct BatchNormalizationOptions {
  double momentum = 0.99;  // of the moving statistics, in [0, 1]
  double epsilon = 1e-3;   // added to the variance; more than 0
  bool center = true;      // add "beta"
  bool scale = true;       // multiply by "gamma"
  Initializer beta_initializer = initializers::zeros();
  Initializer gamma_initializer = initializers::ones();
  Initializer moving_mean_initializer = initializers::zeros();
  Initializer moving_variance_initializer = initializers::ones();
  Regularizer beta_regularizer{};
  Regularizer gamma_regularizer{};
  Constraint beta_constraint{};
  Constraint gamma_constraint{};
  // True: the statistics of a step are those over all replicas: n replicas with batches of b
  // compute the same as one replica with n * b. It needs two small messages in the forward pass and
  // two in the backward pass. False: each replica normalizes its own part.
  bool synchronized = false;
  std::string name{};
};

// Computes (x - mean) / sqrt(variance + epsilon) * gamma + beta for each channel (the last axis):
// [batch, ..., channels] -> the same shape. In training, mean and variance (divided by the count)
// are those over the batch and the axes between, and each moving statistic becomes moving *
// momentum + batch's * (1 - momentum); otherwise the moving statistics are used. Variables,
// [channels], of the input's dtype: "gamma", "beta"; "moving_mean" and "moving_variance", which do
// not train: each replica has its own, and a checkpoint holds their mean. A step without rows does
// not change them. Throws InvalidArgument for options out of range.
MUSTER_EXPORT Layer BatchNormalization(BatchNormalizationOptions options = {});

}  // namespace muster::inline v0_1
