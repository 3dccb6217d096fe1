// A LayerPair is two layers that run as one, if that takes less work and gives the same values and
// gradients: Conv2D with relu, and the MaxPooling2D after it; zero padding that is alike on both
// sides, and the convolution or the MaxPooling2D after it; a sum or a normalization, and the relu
// after it. Thread safety: immutable.
#pragma once

#include "muster/layers/internal/fused_relu.h"
#include "muster/layers/internal/image_layers.h"

namespace muster::inline v0_1::internal {

class LayerPair {
 public:
  // It is empty unless `first` and `second` run as one. Both must outlive it.
  LayerPair(const LayerImpl& first, const LayerImpl& second);
  LayerPair() = default;

  explicit operator bool() const {
    return conv_ != nullptr || pool_ != nullptr || relu_ != nullptr;
  }
  // Calls both, as Sequential({first, second}) does.
  LayerOutputs call(const LayerInputs& inputs, CallContext& context) const;

 private:
  const ConvolutionImpl* conv_ = nullptr;
  const MaxPoolingImpl* pool_ = nullptr;  // after it, or after the padding
  const ZeroPaddingImpl* pad_ = nullptr;  // or in front of it
  const LayerImpl* first_ = nullptr;      // these three are set for a relu alone
  const FusesRelu* fuses_relu_ = nullptr;
  const LayerImpl* relu_ = nullptr;
};

}  // namespace muster::inline v0_1::internal
