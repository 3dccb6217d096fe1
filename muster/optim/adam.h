// Adam, and AMSGrad as its option. Source of the formula: the documentation of
// tf.keras.optimizers.Adam of TensorFlow 2.0 (t = iterations + 1):
//   m += (g - m) * (1 - beta_1);  v += (g * g - v) * (1 - beta_2)
//   w -= m * (lr * sqrt(1 - beta_2^t) / (1 - beta_1^t)) / (sqrt(v) + epsilon)
// PyTorch adds its epsilon to the corrected root instead:
//   w -= m * lr / (1 - beta_1^t) / (sqrt(v / (1 - beta_2^t)) + epsilon)
// AMSGrad keeps vhat = max(vhat, v) and divides by its root; so do both of them.
//
// For a row-sparse variable only the used rows and their moments change, as in TensorFlow Addons's
// LazyAdam; Keras's Adam decays the moments of all rows in every step.
// Thread safety: a pure function of values.
#pragma once

#include <string>

#include "muster/base/export.h"
#include "muster/optim/convention.h"
#include "muster/optim/learning_rate.h"

namespace muster::inline v0_1::optim {

class Optimizer;  // "muster/optim/optimizer.h"

// Options of adam().
struct AdamOptions {
  LearningRate learning_rate = 0.001;  // >= 0
  double beta_1 = 0.9;                 // in [0, 1)
  double beta_2 = 0.999;               // in [0, 1)
  double epsilon = 1e-7;               // > 0; added to sqrt(v), not under the root
  bool amsgrad = false;                // keeps a third slot, "vhat"
  std::string name = "Adam";
  Convention convention = Convention::kTensorFlow;  // where epsilon is added
};
// Throws InvalidArgument that names the field, its value and the range.
MUSTER_EXPORT Optimizer adam(const AdamOptions& options = {});

}  // namespace muster::inline v0_1::optim
