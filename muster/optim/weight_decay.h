// Decoupled weight decay for any optimizer. Thread safety: a pure function of values.
#pragma once

#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/optim/learning_rate.h"

namespace muster::inline v0_1::optim {

class Optimizer;  // "muster/optim/optimizer.h"

// Options of decoupled_weight_decay().
struct WeightDecayOptions {
  double weight_decay = kNotGiven;  // >= 0; must be given
  // Regular expressions; variables whose names contain a match do not decay.
  std::vector<std::string> exclude{};
};
// Returns the optimizer with weight decay: each variable it updates first decays by its learning
// rate of that step: w -= lr * weight_decay * w. For a row-sparse variable the used rows decay.
// AdamW does the same in one pass. Throws InvalidArgument that names the field, its value and the
// range, and for an optimizer that already decays, unless both exclude variables: weights would
// decay twice. Source: Loshchilov and Hutter, 2017; the `weight_decay` of Keras 2.11's optimizers.
MUSTER_EXPORT Optimizer decoupled_weight_decay(Optimizer optimizer,
                                               const WeightDecayOptions& options);

}  // namespace muster::inline v0_1::optim
