// Applies a layer to every step of a sequence.
// Thread safety: immutable values.
#pragma once

#include <string>

#include "muster/base/export.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// Calls `layer` once for all steps, each as a separate example: [batch, steps, ...] -> [batch,
// steps, the layer's output for ...]. The layer has the name it would have alone. A step mask is
// passed on unchanged; a mask with more axes goes into the layer without its first axis. If the
// layer returns no mask, a step counts if any of its elements did. Throws InvalidArgument, when
// called, for fewer than two axes, for a state, and for a layer whose result has not one example
// for each step.
MUSTER_EXPORT Layer TimeDistributed(Layer layer, std::string name = {});

}  // namespace muster::inline v0_1
