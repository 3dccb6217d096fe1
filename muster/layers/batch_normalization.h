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
  // With true, the statistics of a step are those over all replicas: n replicas with batches of b
  // compute what one replica computes with n * b. It costs two small messages in the forward and
  // two in the backward. With false, each replica normalizes its own part.
  bool synchronized = false;
  std::string name{};
};

// Computes (x - mean) / sqrt(variance + epsilon) * gamma + beta for each channel (the last axis):
// [batch, ..., channels] -> the same shape. In training, mean and variance (divided by the count)
// are those of the batch and the axes between, and the moving ones become moving * momentum + of
// the batch * (1 - momentum); otherwise they are the moving ones. Variables, [channels], of the
// input's dtype: "gamma", "beta"; "moving_mean" and "moving_variance", which do not train: each
// replica has its own, and a checkpoint holds their mean. A step without rows leaves them as they
// are. Throws InvalidArgument for options out of range.
MUSTER_EXPORT Layer BatchNormalization(BatchNormalizationOptions options = {});

}  // namespace muster::inline v0_1
