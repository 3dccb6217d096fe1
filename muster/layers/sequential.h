// Sequential, a chain of layers. Thread safety: immutable values.
#pragma once

#include <vector>

#include "muster/base/export.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// Calls the layers one after another. What one gives, tensors and masks, the next one takes; a
// state goes into the first layer and comes out of the last one. Layers inside a Sequential are
// named as if they stood alone. Where a Conv2D with relu is followed by MaxPooling2D, the relu runs
// after the pooling, which gives the same values and gradients for a fraction of the work.
MUSTER_EXPORT Layer Sequential(std::vector<Layer> layers);

}  // namespace muster::inline v0_1
