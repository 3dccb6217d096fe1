// Stochastic gradient descent. Source of the formulas: the documentation of
// tf.keras.optimizers.SGD of TensorFlow 2.0:
//                  w -= lr * g
//   with momentum  u = momentum * u - lr * g;  w += u
//   nesterov       u = momentum * u - lr * g;  w += momentum * u - lr * g
// Thread safety: a pure function of values.
#pragma once

#include <string>

#include "muster/base/export.h"
#include "muster/optim/learning_rate.h"

namespace muster::inline v0_1::optim {

class Optimizer;  // "muster/optim/optimizer.h"

// Options of sgd().
struct SgdOptions {
  LearningRate learning_rate = 0.01;  // >= 0
  double momentum = 0.0;              // in [0, 1]; 0 keeps no slot
  bool nesterov = false;              // without momentum it changes nothing, as in Keras
  std::string name = "SGD";
};
// Throws InvalidArgument that names the field, its value and the range.
MUSTER_EXPORT Optimizer sgd(const SgdOptions& options = {});

}  // namespace muster::inline v0_1::optim
