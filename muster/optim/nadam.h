// Nadam: Adam with Nesterov's momentum. Source of the formula: tf.keras.optimizers.Nadam of
// TensorFlow 2.0; PyTorch's NAdam has the same (t = iterations + 1, decay = schedule_decay):
//   mu(t) = beta_1 * (1 - 0.96^(decay * t) / 2);  M(t) = mu(1) * ... * mu(t)
//   m += (g - m) * (1 - beta_1);  v += (g * g - v) * (1 - beta_2)
//   w -= lr * ((1 - mu(t)) / (1 - M(t)) * g + mu(t + 1) / (1 - M(t + 1)) * m) /
//        (sqrt(v / (1 - beta_2^t)) + epsilon)
// With a schedule_decay of 1 it is the Nadam of tf.keras.optimizers since 2.11 and of Keras 3.
// Keras refuses a learning rate schedule here; Muster accepts it.
// For a row-sparse variable only the used rows and their slots change.
// Thread safety: a pure function of values.
#pragma once

#include <string>

#include "muster/base/export.h"
#include "muster/optim/learning_rate.h"

namespace muster::inline v0_1::optim {

class Optimizer;  // "muster/optim/optimizer.h"

// Options of nadam().
struct NadamOptions {
  LearningRate learning_rate = 0.001;  // >= 0
  double beta_1 = 0.9;                 // in [0, 1)
  double beta_2 = 0.999;               // in [0, 1)
  double epsilon = 1e-7;               // > 0
  double schedule_decay = 0.004;       // >= 0
  std::string name = "Nadam";
};
// Throws InvalidArgument that names the field, its value and the range.
MUSTER_EXPORT Optimizer nadam(const NadamOptions& options = {});

}  // namespace muster::inline v0_1::optim
