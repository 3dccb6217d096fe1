// Learning rates that differ from variable to variable. Thread safety: a pure function of values.
#pragma once

#include <string>
#include <vector>

#include "muster/base/export.h"

namespace muster::inline v0_1::optim {

class Optimizer;  // "muster/optim/optimizer.h"

// A factor of the learning rate for some variables.
struct LearningRateMultiplier {
  std::string variables{};  // a regular expression; applies to names with a match
  double multiplier = 1;    // >= 0
};
// Returns the optimizer with the learning rate of some variables multiplied. The first pattern that
// matches a name applies; without a match the rate is unchanged. A weight decay of the optimizer is
// multiplied too. With a multiplier of 0 the weights do not change, but slots are updated; use
// freeze() for variables that must not train. Throws InvalidArgument with the pattern or multiplier
// and the allowed values.
MUSTER_EXPORT Optimizer learning_rate_multipliers(
    Optimizer optimizer, const std::vector<LearningRateMultiplier>& multipliers);

}  // namespace muster::inline v0_1::optim
