// Says which patterns of a run's optimizers, and which filters of its minimize(), find no variable:
// a typo in one would silently train or decay the wrong variables, or train nothing. Thread safety:
// pure functions.
#pragma once

#include <string>
#include <vector>

#include "muster/optim/train_op.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1::internal {

// Returns a line for each pattern of `train_op` that is in none of `names`, the names of all
// variables: the owner, the probable meaning, and what to do.
std::vector<std::string> unmatched_patterns(const optim::TrainOp& train_op,
                                            const std::vector<std::string>& names);

// Throws InvalidArgument, which lists their names, if the filter of a minimize() accepts none of
// the variables that can train. If there are none at all, nothing is reported here.
void check_filters(const optim::TrainOp& train_op, const std::vector<VariableSpec>& trainable);

}  // namespace muster::inline v0_1::internal
