// Variables that do not train. Thread safety: a pure function of values.
#pragma once

#include <string>
#include <vector>

#include "muster/base/export.h"

namespace muster::inline v0_1::optim {

class Optimizer;  // "muster/optim/optimizer.h"

// Gives the same optimizer, whose minimize() leaves out the variables in whose names one of the
// regular expressions is found, whatever its filter says: they get no gradient and no slots, and
// nothing moves them. Like a filter, it stays the same for a whole run; a checkpoint of a run with
// other frozen variables has other slots. Throws InvalidArgument for what is no regular expression.
MUSTER_EXPORT Optimizer freeze(Optimizer optimizer, const std::vector<std::string>& variables);

}  // namespace muster::inline v0_1::optim
