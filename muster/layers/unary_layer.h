// Most layers have one input tensor and one output tensor.
// Thread safety: immutable.
#pragma once

#include "muster/base/export.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// The short way to make your own layer: implement the second call().
class MUSTER_EXPORT UnaryLayerImpl : public LayerImpl {
 public:
  using LayerImpl::LayerImpl;

  // Throws InvalidArgument for several tensors, for state, and for a mask unless keeps_steps().
  LayerOutputs call(const LayerInputs& inputs, CallContext& context) const final;
  // Must be a pure function, as LayerImpl::call().
  virtual Tensor call(const Tensor& input, CallContext& context) const = 0;

  // Whether the result has the steps of the input, each computed from that step only or from the
  // whole batch in the same way. The result then has the mask of the input.
  virtual bool keeps_steps() const { return false; }
};

}  // namespace muster::inline v0_1
