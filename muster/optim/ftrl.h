// FTRL-Proximal (McMahan et al., 2013). Source of the formula: tf.keras.optimizers.Ftrl of
// TensorFlow 2.0, with p = -learning_rate_power:
//   a' = accumulator + g * g
//   linear += g + 2 * l2_shrinkage * w - (a'^p - accumulator^p) / lr * w;  accumulator = a'
//   w = 0 where |linear| <= l1, and else
//       (sign(linear) * l1 - linear) / ((beta + a'^p) / lr + 2 * l2)
// A weight is computed from its slots, so an initial value other than 0 is soon lost, as in
// TensorFlow.
// For a row-sparse variable only the used rows and their slots change.
// Thread safety: a pure function of values.
#pragma once

#include <string>

#include "muster/base/export.h"
#include "muster/optim/learning_rate.h"

namespace muster::inline v0_1::optim {

class Optimizer;  // "muster/optim/optimizer.h"

// Options of ftrl(). Slots: "accumulator" and "linear".
struct FtrlOptions {
  LearningRate learning_rate = 0.001;       // > 0
  double learning_rate_power = -0.5;        // <= 0; 0 keeps the rate, -0.5 is fast
  double initial_accumulator_value = 0.1;   // >= 0
  double l1_regularization_strength = 0.0;  // >= 0
  double l2_regularization_strength = 0.0;  // >= 0
  std::string name = "Ftrl";
  double l2_shrinkage_regularization_strength = 0.0;  // >= 0; added to the gradient, not to its
                                                      // square
  double beta = 0.0;                                  // >= 0
};
// Throws InvalidArgument that names the field, its value and the range; update() throws it if a
// schedule returns a rate of 0.
MUSTER_EXPORT Optimizer ftrl(const FtrlOptions& options = {});

}  // namespace muster::inline v0_1::optim
