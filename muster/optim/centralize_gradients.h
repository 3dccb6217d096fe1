// Gradient centralisation. Thread safety: a pure function of values.
#pragma once

#include "muster/base/export.h"

namespace muster::inline v0_1::optim {

class Optimizer;  // "muster/optim/optimizer.h"

// Gives the same optimizer, from whose gradients the mean over all axes but the last one, the
// outputs', is taken. Those of one axis and those of row-sparse variables, where it would reach
// rows that were not used, stay as they are. Source: Yong et al., 2020.
MUSTER_EXPORT Optimizer centralize_gradients(Optimizer optimizer);

}  // namespace muster::inline v0_1::optim
