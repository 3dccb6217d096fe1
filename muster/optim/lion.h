// Lion (Chen et al., 2023). Source of the formula: tf.keras.optimizers.Lion of TensorFlow 2.13:
//   w -= lr * sign(beta_1 * m + (1 - beta_1) * g);  m = beta_2 * m + (1 - beta_2) * g
// Its authors use weight decay: decoupled_weight_decay(lion(), ...).
// For a row-sparse variable only the used rows and their slots change.
// Thread safety: a pure function of values.
#pragma once

#include <string>

#include "muster/base/export.h"
#include "muster/optim/learning_rate.h"

namespace muster::inline v0_1::optim {

class Optimizer;  // "muster/optim/optimizer.h"

// Options of lion().
struct LionOptions {
  LearningRate learning_rate = 0.0001;  // >= 0; use a third to a tenth of Adam's. Keras 3 has 0.001
  double beta_1 = 0.9;                  // in (0, 1]
  double beta_2 = 0.99;                 // in [0, 1)
  std::string name = "Lion";
};
// Throws InvalidArgument that names the field, its value and the range.
MUSTER_EXPORT Optimizer lion(const LionOptions& options = {});

}  // namespace muster::inline v0_1::optim
