// Layers that hold others call them through this, so that each is given the dtype it computes in.
// Thread safety: of the thread the context belongs to.
#pragma once

#include "muster/layers/layer.h"

namespace muster::inline v0_1::internal {

// Calls the layer inside of mixed_precision(), as its precision() says.
LayerOutputs call_in_mixed_precision(const LayerImpl& layer, const LayerInputs& inputs,
                                     CallContext& context);

inline LayerOutputs call_layer(const LayerImpl& layer, const LayerInputs& inputs,
                               CallContext& context) {
  return context.mixed_precision() ? call_in_mixed_precision(layer, inputs, context)
                                   : layer.call(inputs, context);
}

}  // namespace muster::inline v0_1::internal
