// RMSprop. Source of the formulas: tf.keras.optimizers.RMSprop of TensorFlow 2.0:
//   rms += (g * g - rms) * (1 - rho);  d = rms
//   centered         mg += (g - mg) * (1 - rho);  d = rms - mg * mg
//                    w -= lr * g / (sqrt(d) + epsilon)
//   with momentum    u = momentum * u + lr * g / sqrt(d + epsilon);  w -= u
// TensorFlow has epsilon under the root only with momentum. Since 2.11, and in Keras 3
// (Convention::kKeras), it is under the root without momentum too: w -= lr * g / sqrt(d + epsilon).
// PyTorch never has it under the root, and its momentum holds no learning rate:
//   with momentum    u = momentum * u + g / (sqrt(d) + epsilon);  w -= lr * u
// A d that rounding makes negative counts as 0.
// For a row-sparse variable only the used rows and their slots change.
// Thread safety: a pure function of values.
#pragma once

#include <string>

#include "muster/base/export.h"
#include "muster/optim/convention.h"
#include "muster/optim/learning_rate.h"

namespace muster::inline v0_1::optim {

class Optimizer;  // "muster/optim/optimizer.h"

// Options of rmsprop(). Slots: "rms", with momentum "momentum", centered "mg".
struct RmspropOptions {
  LearningRate learning_rate = 0.001;  // >= 0
  double rho = 0.9;                    // in [0, 1)
  double momentum = 0.0;               // in [0, 1]; 0 keeps no slot
  double epsilon = 1e-7;               // > 0
  bool centered = false;
  std::string name = "RMSprop";
  Convention convention = Convention::kTensorFlow;  // where epsilon is added, and the momentum
};
// Throws InvalidArgument that names the field, its value and the range.
MUSTER_EXPORT Optimizer rmsprop(const RmspropOptions& options = {});

}  // namespace muster::inline v0_1::optim
