// Learning rates that differ from variable to variable. Thread safety: a pure function of values.
#pragma once

#include <string>
#include <vector>

#include "muster/base/export.h"

namespace muster::inline v0_1::optim {

class Optimizer;  // "muster/optim/optimizer.h"

// How often the learning rate counts for some variables.
struct LearningRateMultiplier {
  std::string variables{};  // a regular expression that is found in their names
  double multiplier = 1;    // >= 0
};
// Gives the same optimizer, whose learning rate counts so many times for some variables. Where
// several fit a name, the first one counts; where none does, the rate stays. A weight decay that
// the optimizer has already is multiplied too. Where the multiplier is 0 the weights stay, while
// slots are updated; what must not train at all is for freeze(). Throws InvalidArgument that names
// the pattern or multiplier and what is allowed.
MUSTER_EXPORT Optimizer learning_rate_multipliers(
    Optimizer optimizer, const std::vector<LearningRateMultiplier>& multipliers);

}  // namespace muster::inline v0_1::optim
