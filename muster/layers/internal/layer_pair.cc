#include "muster/layers/internal/layer_pair.h"

#include <algorithm>

#include "muster/layers/internal/checks.h"

namespace muster::inline v0_1::internal {
namespace {

bool run_as_one(const ConvolutionImpl* conv, const MaxPoolingImpl* pool) {
  // With a penalty on what the convolution gives, it has to give it.
  return conv != nullptr && pool != nullptr && conv->spec().window.rank() == 2 &&
         conv->spec().activation == Activation::kRelu && !conv->spec().activity_regularizer &&
         pool->window().rank() == 2;
}

bool run_as_one(const ZeroPaddingImpl* pad, const ConvolutionImpl* conv) {
  return pad != nullptr && conv != nullptr && conv->spec().window.rank() == pad->margins().size() &&
         conv->spec().window.padding == Padding::kValid &&
         std::all_of(pad->margins().begin(), pad->margins().end(),
                     [](const Pads& margin) { return margin.before == margin.after; });
}

}  // namespace

LayerPair::LayerPair(const LayerImpl& first, const LayerImpl& second) {
  const auto* conv = dynamic_cast<const ConvolutionImpl*>(&first);
  const auto* pool = dynamic_cast<const MaxPoolingImpl*>(&second);
  const auto* pad = dynamic_cast<const ZeroPaddingImpl*>(&first);
  const auto* behind = dynamic_cast<const ConvolutionImpl*>(&second);
  if (run_as_one(conv, pool)) {
    conv_ = conv;
    pool_ = pool;
  } else if (run_as_one(pad, behind)) {
    conv_ = behind;
    pad_ = pad;
  }
}

LayerOutputs LayerPair::call(const LayerInputs& inputs, CallContext& context) const {
  const UnaryLayerImpl& first =
      pad_ != nullptr ? static_cast<const UnaryLayerImpl&>(*pad_) : *conv_;
  const Tensor& images = single_tensor(context, first.identity(), inputs, first.keeps_steps());
  return {.tensors = {pad_ != nullptr ? pad_conv(*pad_, *conv_, images, context)
                                      : conv_relu_pool(*conv_, *pool_, images, context)}};
}

}  // namespace muster::inline v0_1::internal
