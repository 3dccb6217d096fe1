// Adafactor (Shazeer and Stern, 2018): Adam's second moments with only a row and a column of
// memory. Source of the formula: tf.keras.optimizers.Adafactor of TensorFlow 2.12. t is the number
// of updates, including this one, and rms(x) the square root of the mean of x * x:
//   rho = min(lr, 1 / sqrt(t));  alpha = rho * max(epsilon_2, rms(w))
//   b = 1 - t^beta_2_decay;  s = g * g + epsilon_1
//   vr = b * vr + (1 - b) * mean of s over the last axis
//   vc = b * vc + (1 - b) * mean of s over the last axis but one
//   v = vr / (mean of vr over its last axis) * vc
//   u = g / sqrt(v);  w -= alpha * u / max(1, rms(u) / clip_threshold)
// A variable of fewer than two axes keeps v = b * v + (1 - b) * s in a slot, and so does a
// row-sparse variable, where only the used rows change; means are then over these rows.
// Thread safety: a pure function of values.
#pragma once

#include <string>

#include "muster/base/export.h"
#include "muster/optim/learning_rate.h"

namespace muster::inline v0_1::optim {

class Optimizer;  // "muster/optim/optimizer.h"

// Options of adafactor().
struct AdafactorOptions {
  LearningRate learning_rate = 0.001;  // >= 0
  double beta_2_decay = -0.8;          // at least -1 and below 0
  double epsilon_1 = 1e-30;            // > 0; added to the squares
  double epsilon_2 = 1e-3;             // > 0; the lower bound of rms(w)
  double clip_threshold = 1;           // > 0
  bool relative_step = true;           // false: rho is lr
  bool scale_parameter = true;         // false: alpha is rho
  std::string name = "Adafactor";
};
// Throws InvalidArgument that names the field, its value and the range.
MUSTER_EXPORT Optimizer adafactor(const AdafactorOptions& options = {});

}  // namespace muster::inline v0_1::optim
