// AdamW: Adam with decoupled weight decay. Source of the formula: the documentation of
// tf.keras.optimizers.AdamW of TensorFlow 2.11, which is Algorithm 2 of Loshchilov and Hutter with
// the learning rate as the schedule multiplier:
//   w -= lr * weight_decay * w, and then the step of adam.h
// PyTorch's AdamW is the same except for its epsilon (see adam.h) and defaults (weight_decay 0.01,
// epsilon 1e-8). TensorFlow Addons's subtracts weight_decay * w without the learning rate.
// Thread safety: a pure function of values.
#pragma once

#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/optim/convention.h"
#include "muster/optim/learning_rate.h"

namespace muster::inline v0_1::optim {

class Optimizer;  // "muster/optim/optimizer.h"

// Options of adamw().
struct AdamWOptions {
  LearningRate learning_rate = 0.001;  // >= 0
  double weight_decay = 0.004;         // >= 0
  double beta_1 = 0.9;                 // in [0, 1)
  double beta_2 = 0.999;               // in [0, 1)
  double epsilon = 1e-7;               // > 0; added to sqrt(v), not under the root
  bool amsgrad = false;                // keeps a third slot, "vhat"
  std::string name = "AdamW";
  // Regular expressions; variables whose names contain a match do not decay.
  std::vector<std::string> exclude_from_weight_decay{};
  Convention convention = Convention::kTensorFlow;  // where epsilon is added
};
// Throws InvalidArgument that names the field, its value and the range.
MUSTER_EXPORT Optimizer adamw(const AdamWOptions& options = {});

}  // namespace muster::inline v0_1::optim
