// LARS (You, Gitman and Ginsburg, 2017, Algorithm 1): momentum with a learning rate for each
// variable; the classic momentum of LARS in TensorFlow's model garden is the same:
//   ratio = eeta * |w| / (|g| + weight_decay * |w| + epsilon), where |x| is the Euclidean norm of
//   the whole variable; it counts as 1 where |w| or |g| is 0
//   u = momentum * u - lr * ratio * (g + weight_decay * w);  w += u
//   nesterov  w += momentum * u - lr * ratio * (g + weight_decay * w)
// It needs two passes over memory, because the norms are known only after the first. They are
// summed in double. For a row-sparse variable only the used rows change, and norms are those of
// these rows.
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
  // Regular expressions; variables whose names contain a match of the first list do not decay, of
  // the second have the ratio 1. An unset second list equals the first.
  std::vector<std::string> exclude_from_weight_decay{};
  std::optional<std::vector<std::string>> exclude_from_layer_adaptation{};
  std::string name = "LARS";
};
// Throws InvalidArgument that names the field, its value and the range.
MUSTER_EXPORT Optimizer lars(const LarsOptions& options = {});

}  // namespace muster::inline v0_1::optim
