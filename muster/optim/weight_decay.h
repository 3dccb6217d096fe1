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
  // Regular expressions; a variable in whose name one is found does not decay.
  std::vector<std::string> exclude{};
};
// Gives the same optimizer, where each variable it updates decays first, by its learning rate of
// that step: w -= lr * weight_decay * w. Of a row-sparse variable the rows used decay. AdamW does
// the same in one pass. Throws InvalidArgument that names the field, its value and the range, and
// for an optimizer that decays already, unless both leave out variables: weights would decay twice.
// Source: Loshchilov and Hutter, 2017; the `weight_decay` of Keras 2.11's optimizers.
MUSTER_EXPORT Optimizer decoupled_weight_decay(Optimizer optimizer,
                                               const WeightDecayOptions& options);

}  // namespace muster::inline v0_1::optim
