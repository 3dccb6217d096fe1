// Sequential, a chain of layers. Thread safety: immutable values.
#pragma once

#include <vector>

#include "muster/base/export.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// Calls the layers one after another. Each layer gets the tensors and masks of the one before; a
// state goes into the first layer and comes out of the last one. Layers inside a Sequential have
// the names they would have alone. If a Conv2D with relu is followed by MaxPooling2D, the relu runs
// after the pooling, which gives the same values and gradients with less work.
MUSTER_EXPORT Layer Sequential(std::vector<Layer> layers);

}  // namespace muster::inline v0_1
