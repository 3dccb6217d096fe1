// Most layers take one tensor and give one.
// Thread safety: immutable.
#pragma once

#include "muster/base/export.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// This is the short way to a layer of your own, which implements the second call().
class MUSTER_EXPORT UnaryLayerImpl : public LayerImpl {
 public:
  using LayerImpl::LayerImpl;

  // Throws InvalidArgument for several tensors, for state, and for a mask where keeps_steps() is
  // false.
  LayerOutputs call(const LayerInputs& inputs, CallContext& context) const final;
  // Must be a pure function as LayerImpl::call() is.
  virtual Tensor call(const Tensor& input, CallContext& context) const = 0;

  // Tells whether the result has the steps of the input, each made of that step alone or of the
  // whole batch alike. Then the mask of the input is the mask of the result.
  virtual bool keeps_steps() const { return false; }
};

}  // namespace muster::inline v0_1
