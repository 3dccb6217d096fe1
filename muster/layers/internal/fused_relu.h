// Layers whose output no gradient needs let the following relu overwrite it: memory that is not
// allocated costs no time. Thread safety: immutable.
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

// Returns relu(values), perhaps in the memory of `values`. No other code holds these, and no
// gradient needs them.
Tensor relu_in_place(Tensor values);

// The part of a layer that layer_pair.cc needs: whether it is only a relu.
class MayBeRelu {
 public:
  virtual bool is_relu() const = 0;

 protected:
  ~MayBeRelu() = default;
};

}  // namespace muster::inline v0_1::internal
