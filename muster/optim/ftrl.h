// FTRL-Proximal (McMahan et al., 2013). Source of the formula: tf.keras.optimizers.Ftrl of
// TensorFlow 2.0, with p = -learning_rate_power:
//   a' = accumulator + g * g
//   linear += g + 2 * l2_shrinkage * w - (a'^p - accumulator^p) / lr * w;  accumulator = a'
//   w = 0 where |linear| <= l1, and else
//       (sign(linear) * l1 - linear) / ((beta + a'^p) / lr + 2 * l2)
// A weight follows from its slots: where it did not begin at 0, it is soon forgotten, as there.
// Of a row-sparse variable only the rows used change, slots too.
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
  double learning_rate_power = -0.5;        // <= 0; 0 keeps the rate, -0.5 is the quick one
  double initial_accumulator_value = 0.1;   // >= 0
  double l1_regularization_strength = 0.0;  // >= 0
  double l2_regularization_strength = 0.0;  // >= 0
  std::string name = "Ftrl";
  double l2_shrinkage_regularization_strength = 0.0;  // >= 0; joins the gradient, not its square
  double beta = 0.0;                                  // >= 0
};
// Throws InvalidArgument that names the field, its value and the range; update() throws it when a
// schedule gives a rate of 0.
MUSTER_EXPORT Optimizer ftrl(const FtrlOptions& options = {});

}  // namespace muster::inline v0_1::optim
