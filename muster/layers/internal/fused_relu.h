// Layers whose values no gradient needs let the relu after them write over these: memory that is
// not asked for costs no time.
// Thread safety: immutable.
#pragma once

#include "muster/layers/layer.h"

namespace muster::inline v0_1::internal {

// A layer that can do so.
class FusesRelu {
 public:
  // Calls the layer, then relu.
  virtual LayerOutputs call_with_relu(const LayerInputs& inputs, CallContext& context) const = 0;

 protected:
  ~FusesRelu() = default;
};

// Gives relu(values), which may stand where `values` stood. No other code holds these, and no
// gradient needs them.
Tensor relu_in_place(Tensor values);

// What layer_pair.cc has to know of a layer: whether it is nothing but relu.
class MayBeRelu {
 public:
  virtual bool is_relu() const = 0;

 protected:
  ~MayBeRelu() = default;
};

}  // namespace muster::inline v0_1::internal
