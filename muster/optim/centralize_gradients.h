// Gradient centralisation. Thread safety: a pure function of values.
#pragma once

#include "muster/base/export.h"

namespace muster::inline v0_1::optim {

class Optimizer;  // "muster/optim/optimizer.h"

// Returns the optimizer with centralised gradients: the mean over all axes except the last (the
// outputs) is subtracted. Gradients of one axis are unchanged, and so are those of row-sparse
// variables, where it would affect rows that were not used. Source: Yong et al., 2020.
MUSTER_EXPORT Optimizer centralize_gradients(Optimizer optimizer);

}  // namespace muster::inline v0_1::optim
