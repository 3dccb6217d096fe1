#include "muster/layers/internal/layer_pair.h"

#include <algorithm>

#include "muster/layers/internal/call_layer.h"
#include "muster/layers/internal/checks.h"

namespace muster::inline v0_1::internal {
namespace {

bool run_as_one(const ConvolutionImpl* conv, const MaxPoolingImpl* pool) {
  // A penalty on the convolution's output needs this output.
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

bool run_as_one(const ZeroPaddingImpl* pad, const MaxPoolingImpl* pool) {
  if (pad == nullptr || pool == nullptr) return false;
  const Window& window = pool->window();
  if (window.rank() != pad->margins().size() || window.padding != Padding::kValid) return false;
  for (size_t i = 0; i < window.rank(); ++i) {
    const Pads& margin = pad->margins()[i];
    // Every window holds some of the image.
    if (margin.before != margin.after || 2 * margin.before > window.sizes[i]) return false;
  }
  return true;
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
  } else if (run_as_one(pad, pool)) {
    pool_ = pool;
    pad_ = pad;
  }
  const auto* relu = dynamic_cast<const MayBeRelu*>(&second);
  const auto* fuses_relu = dynamic_cast<const FusesRelu*>(&first);
  if (relu != nullptr && relu->is_relu() && fuses_relu != nullptr) {
    first_ = &first;
    fuses_relu_ = fuses_relu;
    relu_ = &second;
  }
}

LayerOutputs LayerPair::call(const LayerInputs& inputs, CallContext& context) const {
  if (relu_ != nullptr) {
    context.name_of(first_->identity());
    context.name_of(relu_->identity());
    // A relu of whole numbers is refused by itself.
    const bool plain = !context.mixed_precision() && !inputs.tensors.empty() &&
                       inputs.tensors[0].is_floating_point();
    if (plain) return fuses_relu_->call_with_relu(inputs, context);
    LayerOutputs outputs = call_layer(*first_, inputs, context);
    return call_layer(*relu_, {.tensors = outputs.tensors, .masks = outputs.masks}, context);
  }
  const UnaryLayerImpl& first =
      pad_ != nullptr ? static_cast<const UnaryLayerImpl&>(*pad_) : *conv_;
  const Tensor& images = single_tensor(context, first.identity(), inputs, first.keeps_steps());
  if (pad_ != nullptr && pool_ != nullptr)
    return {.tensors = {pool_->call_with_zeros(images, *pad_, context)}};
  return {.tensors = {pad_ != nullptr ? pad_conv(*pad_, *conv_, images, context)
                                      : conv_relu_pool(*conv_, *pool_, images, context)}};
}

}  // namespace muster::inline v0_1::internal
