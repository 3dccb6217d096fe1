// Layers that take one tensor and give one, as most do.
// Thread safety: immutable.
#pragma once

#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// The short way to a layer of your own: it implements the second call().
class UnaryLayerImpl : public LayerImpl {
 public:
  using LayerImpl::LayerImpl;

  // Throws InvalidArgument for several tensors, for state, and for a mask where keeps_steps() is
  // false.
  LayerOutputs call(const LayerInputs& inputs, CallContext& context) const final;
  // Must be a pure function as LayerImpl::call() is.
  virtual Tensor call(const Tensor& input, CallContext& context) const = 0;

  // Whether the result has the steps of the input, each made of that step alone: then a mask of the
  // input is the mask of the result.
  virtual bool keeps_steps() const { return false; }
};

}  // namespace muster::inline v0_1
