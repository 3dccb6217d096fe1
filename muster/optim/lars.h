// LARS (You, Gitman and Ginsburg, 2017, Algorithm 1): momentum with a learning rate for each
// variable, which the LARS of TensorFlow's model garden has as its classic momentum:
//   ratio = eeta * |w| / (|g| + weight_decay * |w| + epsilon), where |x| is the Euclidean norm of
//   the whole variable; it counts as 1 where |w| or |g| is 0
//   u = momentum * u - lr * ratio * (g + weight_decay * w);  w += u
//   nesterov  w += momentum * u - lr * ratio * (g + weight_decay * w)
// It takes two passes over memory, for the norms are known only after the first. They are summed in
// double. Of a row-sparse variable the rows used change, and norms are of these rows.
// Thread safety: a pure function of values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/optim/learning_rate.h"

namespace muster::inline v0_1::optim {

class Optimizer;  // "muster/optim/optimizer.h"

// Options of lars(). The slot is "momentum".
struct LarsOptions {
  LearningRate learning_rate = 0.01;  // >= 0
  double momentum = 0.9;              // in [0, 1]
  double weight_decay = 0.0;          // >= 0
  double eeta = 0.001;                // > 0
  double epsilon = 0.0;               // >= 0
  bool nesterov = false;
  // Regular expressions; a variable in whose name one is found does not decay, or has the ratio 1.
  // The second list is the first one where none is given.
  std::vector<std::string> exclude_from_weight_decay{};
  std::optional<std::vector<std::string>> exclude_from_layer_adaptation{};
  std::string name = "LARS";
};
// Throws InvalidArgument that names the field, its value and the range.
MUSTER_EXPORT Optimizer lars(const LarsOptions& options = {});

}  // namespace muster::inline v0_1::optim
