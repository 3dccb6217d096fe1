#include "muster/layers/internal/layer_pair.h"

#include "muster/layers/internal/checks.h"

namespace muster::inline v0_1::internal {

LayerPair::LayerPair(const LayerImpl& first, const LayerImpl& second) {
  const auto* conv = dynamic_cast<const ConvolutionImpl*>(&first);
  if (conv == nullptr || conv->spec().window.rank() != 2 ||
      conv->spec().activation != Activation::kRelu || conv->spec().activity_regularizer) {
    return;  // with a penalty on what it gives, it has to give it
  }
  const auto* pool = dynamic_cast<const MaxPoolingImpl*>(&second);
  if (pool == nullptr || pool->window().rank() != 2) return;
  conv_ = conv;
  pool_ = pool;
}

LayerOutputs LayerPair::call(const LayerInputs& inputs, CallContext& context) const {
  const Tensor& images = single_tensor(context, conv_->identity(), inputs, conv_->keeps_steps());
  return {.tensors = {conv_relu_pool(*conv_, *pool_, images, context)}};
}

}  // namespace muster::inline v0_1::internal
