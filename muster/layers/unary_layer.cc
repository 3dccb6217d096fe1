#include "muster/layers/unary_layer.h"

#include "muster/layers/internal/checks.h"

namespace muster::inline v0_1 {

LayerOutputs UnaryLayerImpl::call(const LayerInputs& inputs, CallContext& context) const {
  const Tensor& input = internal::single_tensor(context, identity(), inputs, keeps_steps());
  return {.tensors = {call(input, context)}, .masks = inputs.masks};
}

}  // namespace muster::inline v0_1
