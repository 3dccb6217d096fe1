// A function of your own as a layer.
// Thread safety: immutable values.
#pragma once

#include <functional>
#include <string>

#include "muster/base/export.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// Computes `function`, which every replica's thread calls; it must be a pure function of its
// argument. For variables or random numbers use a UnaryLayerImpl. Throws InvalidArgument for an
// empty function, and, when called, if it returns an undefined tensor. An exception of LibTorch
// inside it becomes an error with the layer and its input.
MUSTER_EXPORT Layer Lambda(std::function<Tensor(const Tensor&)> function, std::string name = {});

}  // namespace muster::inline v0_1
