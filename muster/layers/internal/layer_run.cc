#include "muster/layers/internal/layer_run.h"

#include "muster/layers/internal/call_layer.h"
#include "muster/layers/internal/checks.h"

namespace muster::inline v0_1::internal {

LayerRun::LayerRun(std::span<const LayerImpl* const> layers) {
  if (layers.size() < 2) return;
  if (take_convolution(layers)) return;
  first_.pair = LayerPair(*layers[0], *layers[1]);
  if (first_.pair) size_ = 2;
}

bool LayerRun::take_convolution(std::span<const LayerImpl* const> layers) {
  const auto* pad = dynamic_cast<const ZeroPaddingImpl*>(layers[0]);
  const size_t place = pad != nullptr ? 1 : 0;  // of the convolution
  if (layers.size() < place + 2) return false;
  const auto* conv = dynamic_cast<const ConvolutionImpl*>(layers[place]);
  const auto* norm = dynamic_cast<const AffineNormalization*>(layers[place + 1]);
  if (conv == nullptr || norm == nullptr || !may_fold(*conv)) return false;
  first_.layer = conv;
  if (pad != nullptr) {
    first_.pair = LayerPair(*pad, *conv);
    if (!first_.pair) return false;
  }
  pad_ = pad;
  conv_ = conv;
  norm_ = norm;
  second_.layer = behind_ = layers[place + 1];
  size_ = place + 2;
  if (size_ < layers.size()) second_.pair = LayerPair(*behind_, *layers[size_]);
  if (second_.pair) relu_ = layers[size_++];
  return true;
}

LayerOutputs LayerRun::Part::call(const LayerInputs& inputs, CallContext& context) const {
  return pair ? pair.call(inputs, context) : call_layer(*layer, inputs, context);
}

Tensor LayerRun::call_folded(const LayerInputs& inputs, CallContext& context) const {
  const UnaryLayerImpl& first =
      pad_ != nullptr ? static_cast<const UnaryLayerImpl&>(*pad_) : *conv_;
  const Tensor& images = single_tensor(context, first.identity(), inputs, first.keeps_steps());
  Sizes margins;
  if (pad_ != nullptr) {
    if (!fits_with_margins(*pad_, *conv_, images, context)) return {};
    margins = margins_of(*pad_);
  }
  return internal::call_folded(*conv_, *norm_, behind_->identity(), images, margins, context);
}

LayerOutputs LayerRun::call(const LayerInputs& inputs, CallContext& context) const {
  if (norm_ == nullptr) return first_.call(inputs, context);
  if (Tensor output = call_folded(inputs, context); output.defined()) {
    if (relu_ == nullptr) return {.tensors = {std::move(output)}};
    context.name_of(relu_->identity());
    return {.tensors = {relu_in_place(std::move(output))}};
  }
  LayerValues values = first_.call(inputs, context);
  values.state.clear();
  return second_.call(values, context);
}

}  // namespace muster::inline v0_1::internal
