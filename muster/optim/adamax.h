// Adamax: Adam with the largest gradient. Source of the formula: tf.keras.optimizers.Adamax of
// TensorFlow 2.0 (t = iterations + 1):
//   m += (g - m) * (1 - beta_1);  v = max(beta_2 * v, |g|)
//   w -= lr / (1 - beta_1^t) * m / (v + epsilon)
// PyTorch adds epsilon to |g| instead: v = max(beta_2 * v, |g| + epsilon), w -= ... * m / v.
// For a row-sparse variable only the used rows and their slots change.
// Thread safety: a pure function of values.
#pragma once

#include <string>

#include "muster/base/export.h"
#include "muster/optim/convention.h"
#include "muster/optim/learning_rate.h"

namespace muster::inline v0_1::optim {

class Optimizer;  // "muster/optim/optimizer.h"

// Options of adamax().
struct AdamaxOptions {
  LearningRate learning_rate = 0.001;  // >= 0
  double beta_1 = 0.9;                 // in [0, 1)
  double beta_2 = 0.999;               // in [0, 1)
  double epsilon = 1e-7;               // > 0
  std::string name = "Adamax";
  Convention convention = Convention::kTensorFlow;  // where epsilon is added
};
// Throws InvalidArgument that names the field, its value and the range.
MUSTER_EXPORT Optimizer adamax(const AdamaxOptions& options = {});

}  // namespace muster::inline v0_1::optim
