// Adadelta. Source of the formula: tf.keras.optimizers.Adadelta of TensorFlow 2.0; PyTorch has the
// same, with the defaults learning_rate 1, rho 0.9 and epsilon 1e-6:
//   accum_grad += (g * g - accum_grad) * (1 - rho)
//   u = g * sqrt(accum_var + epsilon) / sqrt(accum_grad + epsilon)
//   accum_var += (u * u - accum_var) * (1 - rho);  w -= lr * u
// For a row-sparse variable only the used rows and their slots change.
// Thread safety: a pure function of values.
#pragma once

#include <string>

#include "muster/base/export.h"
#include "muster/optim/learning_rate.h"

namespace muster::inline v0_1::optim {

class Optimizer;  // "muster/optim/optimizer.h"

// Options of adadelta().
struct AdadeltaOptions {
  LearningRate learning_rate = 0.001;  // >= 0; 1 in the original
  double rho = 0.95;                   // in [0, 1)
  double epsilon = 1e-7;               // > 0; under both roots
  std::string name = "Adadelta";
};
// Throws InvalidArgument that names the field, its value and the range.
MUSTER_EXPORT Optimizer adadelta(const AdadeltaOptions& options = {});

}  // namespace muster::inline v0_1::optim
