// LAMB (You et al., 2019): Adam with a learning rate for each variable. Source of the formula:
// tfa.optimizers.LAMB of TensorFlow Addons (t = iterations + 1):
//   m += (g - m) * (1 - beta_1);  v += (g * g - v) * (1 - beta_2)
//   u = m / (1 - beta_1^t) / (sqrt(v / (1 - beta_2^t)) + epsilon) + weight_decay * w
//   w -= lr * (|w| / |u|) * u, where |x| is the Euclidean norm of the whole variable; the ratio
//   counts as 1 where one of them is 0
// It needs two passes over memory, because u is known only after the first. Norms are summed in
// double. For a row-sparse variable only the used rows and their slots change, and norms are those
// of these rows.
// Thread safety: a pure function of values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/optim/learning_rate.h"

namespace muster::inline v0_1::optim {

class Optimizer;  // "muster/optim/optimizer.h"

// Options of lamb(). Slots: "m" and "v".
struct LambOptions {
  LearningRate learning_rate = 0.001;  // >= 0
  double beta_1 = 0.9;                 // in [0, 1)
  double beta_2 = 0.999;               // in [0, 1)
  double epsilon = 1e-6;               // > 0
  double weight_decay = 0.0;           // >= 0
  // Regular expressions; variables whose names contain a match of the first list do not decay, of
  // the second have the ratio 1. An unset second list equals the first.
  std::vector<std::string> exclude_from_weight_decay{};
  std::optional<std::vector<std::string>> exclude_from_layer_adaptation{};
  std::string name = "LAMB";
};
// Throws InvalidArgument that names the field, its value and the range.
MUSTER_EXPORT Optimizer lamb(const LambOptions& options = {});

}  // namespace muster::inline v0_1::optim
