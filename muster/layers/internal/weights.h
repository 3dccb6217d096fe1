// Layers with several weights create them through this.
// Thread safety: of the thread the context belongs to.
#pragma once

#include "muster/layers/layer.h"

namespace muster::inline v0_1::internal {

// Gives the variable in place `slot` of the layer, of the input's dtype, and creates it at the
// first call, with the regularizer and the constraint. Throws InvalidArgument for an input of
// another dtype than the variable's.
const Tensor& weight(CallContext& context, const LayerIdentity& layer, int slot, const char* name,
                     const Shape& shape, const Tensor& input, const Initializer& initializer,
                     const Regularizer& regularizer = {}, const Constraint& constraint = {});

}  // namespace muster::inline v0_1::internal
