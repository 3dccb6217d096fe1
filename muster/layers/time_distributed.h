// Applies a layer to every step of a sequence.
// Thread safety: immutable values.
#pragma once

#include <string>

#include "muster/base/export.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// Calls `layer` once for all steps, each an example of its own: [batch, steps, ...] -> [batch,
// steps, what the layer makes of ...]. The layer is named as if it stood alone. A mask of the steps
// stays as it is; one with more axes goes into the layer without its first one, and where no mask
// comes out, a step counts in which something did. Throws InvalidArgument when called for fewer
// than two axes, for a state, and for a layer whose result has not an example for each step.
MUSTER_EXPORT Layer TimeDistributed(Layer layer, std::string name = {});

}  // namespace muster::inline v0_1
