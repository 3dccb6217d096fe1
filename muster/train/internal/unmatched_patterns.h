// Says which patterns of a run's optimizers, and which filters of its minimize(), find no variable:
// a typo in one would train or decay what should not be, or train nothing, in silence. Thread
// safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "muster/optim/train_op.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1::internal {

// Gives a line for each pattern of `train_op` that is in none of `names`, those of all variables:
// who has it, what may have been meant, and what to do.
std::vector<std::string> unmatched_patterns(const optim::TrainOp& train_op,
                                            const std::vector<std::string>& names);

// Throws InvalidArgument, which lists their names, when the filter that a minimize() was given
// accepts none of the variables that can train. Where there are none at all, nothing is said here.
void check_filters(const optim::TrainOp& train_op, const std::vector<VariableSpec>& trainable);

}  // namespace muster::inline v0_1::internal
