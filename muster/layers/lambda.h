// A function of your own as a layer.
// Thread safety: immutable values.
#pragma once

#include <functional>
#include <string>

#include "muster/base/export.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// Computes `function`, which is called from every replica's thread, and must be a pure function of
// its argument. One with variables or random numbers is a UnaryLayerImpl. Throws InvalidArgument
// for an empty function, and when called, where it gives an undefined tensor; what LibTorch throws
// in it is an error that names the layer and its input.
MUSTER_EXPORT Layer Lambda(std::function<Tensor(const Tensor&)> function, std::string name = {});

}  // namespace muster::inline v0_1
