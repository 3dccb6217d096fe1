// Variables that do not train. Thread safety: a pure function of values.
#pragma once

#include <string>
#include <vector>

#include "muster/base/export.h"

namespace muster::inline v0_1::optim {

class Optimizer;  // "muster/optim/optimizer.h"

// Returns the optimizer without the variables whose names contain a match of one of the regular
// expressions, whatever its filter says: they get no gradient and no slots, and do not change. Like
// a filter, it must stay the same for a whole run; a checkpoint of a run with other frozen
// variables has other slots. Throws InvalidArgument for an invalid regular expression.
MUSTER_EXPORT Optimizer freeze(Optimizer optimizer, const std::vector<std::string>& variables);

}  // namespace muster::inline v0_1::optim
