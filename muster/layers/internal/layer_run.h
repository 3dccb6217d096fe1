// A LayerRun is layers one after another that run as one step: a LayerPair, or a convolution and
// the BatchNormalization after it, if nothing trains, with the zero padding before and the relu
// after them. Thread safety: immutable.
#pragma once

#include <span>

#include "muster/layers/internal/folded_convolution.h"
#include "muster/layers/internal/layer_pair.h"

namespace muster::inline v0_1::internal {

class LayerRun {
 public:
  // A run takes no more layers than these.
  static constexpr size_t kMostLayers = 4;

  // Takes as many of `layers` from the first on as run as one: none, or at least two. All must
  // outlive it.
  explicit LayerRun(std::span<const LayerImpl* const> layers);
  LayerRun() = default;

  explicit operator bool() const { return size_ > 0; }
  size_t size() const { return size_; }
  // Calls them, as Sequential(layers) does.
  LayerOutputs call(const LayerInputs& inputs, CallContext& context) const;

 private:
  // One layer, or two.
  struct Part {
    const LayerImpl* layer = nullptr;
    LayerPair pair{};
    LayerOutputs call(const LayerInputs& inputs, CallContext& context) const;
  };
  // Whether a convolution that may be folded begins `layers`, with its padding or without.
  bool take_convolution(std::span<const LayerImpl* const> layers);
  // An undefined tensor if the call cannot be folded.
  Tensor call_folded(const LayerInputs& inputs, CallContext& context) const;

  size_t size_ = 0;
  Part first_;   // the pair, or the convolution with its padding
  Part second_;  // the normalization with its relu
  // These are set where both parts may be folded.
  const ZeroPaddingImpl* pad_ = nullptr;  // may still be missing
  const ConvolutionImpl* conv_ = nullptr;
  const AffineNormalization* norm_ = nullptr;
  const LayerImpl* behind_ = nullptr;  // the same layer
  const LayerImpl* relu_ = nullptr;    // may be missing
};

}  // namespace muster::inline v0_1::internal
