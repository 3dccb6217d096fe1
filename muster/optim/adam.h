// Adam. Source of the formula: the documentation of tf.keras.optimizers.Adam of TensorFlow 2.0
// (t = iterations + 1):
//   m += (g - m) * (1 - beta_1);  v += (g * g - v) * (1 - beta_2)
//   w -= m * (lr * sqrt(1 - beta_2^t) / (1 - beta_1^t)) / (sqrt(v) + epsilon)
// Thread safety: a pure function of values.
#pragma once

#include <string>

namespace muster::inline v0_1::optim {

class Optimizer;  // "muster/optim/optimizer.h"

// Options of adam().
struct AdamOptions {
  double learning_rate = 0.001;  // >= 0
  double beta_1 = 0.9;           // in [0, 1)
  double beta_2 = 0.999;         // in [0, 1)
  double epsilon = 1e-7;         // > 0; added to sqrt(v), not under the root
  std::string name = "Adam";
};
// Throws InvalidArgument that names the field, its value and the range.
Optimizer adam(const AdamOptions& options = {});

}  // namespace muster::inline v0_1::optim
