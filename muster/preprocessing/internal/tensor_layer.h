// Layers that are functions of their input alone can be called without a context too.
// Thread safety: immutable.
#pragma once

#include "muster/layers/unary_layer.h"

namespace muster::inline v0_1::internal {

class TensorLayerImpl : public UnaryLayerImpl {
 public:
  using UnaryLayerImpl::UnaryLayerImpl;

  Tensor call(const Tensor& input, CallContext& context) const final {
    context.name_of(identity());  // layers are counted in the order of their calls
    return apply(input);
  }
  virtual Tensor apply(const Tensor& input) const = 0;
};

}  // namespace muster::inline v0_1::internal
