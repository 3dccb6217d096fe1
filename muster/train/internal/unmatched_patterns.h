// Says which patterns of a run's optimizers are in the name of no variable: a typo in one would
// train or decay what should not be, in silence. Thread safety: a pure function.
#pragma once

#include <string>
#include <vector>

#include "muster/optim/train_op.h"

namespace muster::inline v0_1::internal {

// Gives a line for each pattern of `train_op` that is in none of `names`, those of all variables:
// who has it, what may have been meant, and what to do.
std::vector<std::string> unmatched_patterns(const optim::TrainOp& train_op,
                                            const std::vector<std::string>& names);

}  // namespace muster::inline v0_1::internal
