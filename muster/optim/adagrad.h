// Adagrad. Source of the formula: the documentation of tf.keras.optimizers.Adagrad of TensorFlow
// 2.0:
//   a += g * g;  w -= lr * g / (sqrt(a) + epsilon)
// Since 2.11, and in Keras 3 (Convention::kKeras), epsilon is under the root:
//   w -= lr * g / sqrt(a + epsilon)
// Thread safety: a pure function of values.
#pragma once

#include <string>

#include "muster/base/export.h"
#include "muster/optim/convention.h"
#include "muster/optim/learning_rate.h"

namespace muster::inline v0_1::optim {

class Optimizer;  // "muster/optim/optimizer.h"

// Options of adagrad().
struct AdagradOptions {
  LearningRate learning_rate = 0.001;      // >= 0
  double initial_accumulator_value = 0.1;  // >= 0; initial sum of the squared gradients
  double epsilon = 1e-7;                   // > 0; added to sqrt(a), not under the root
  std::string name = "Adagrad";
  Convention convention = Convention::kTensorFlow;  // where epsilon is added
};
// The learning rate of a weight shrinks with its updates. Throws InvalidArgument that names the
// field, its value and the range.
MUSTER_EXPORT Optimizer adagrad(const AdagradOptions& options = {});

}  // namespace muster::inline v0_1::optim
