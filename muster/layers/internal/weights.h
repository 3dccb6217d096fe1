// Layers with several weights create them through this.
// Thread safety: of the thread the context belongs to.
#pragma once

#include "muster/layers/layer.h"

namespace muster::inline v0_1::internal {

// Returns the variable in place `slot` of the layer, of the input's dtype, and creates it at the
// first call, with the regularizer and the constraint. For an input of bfloat16 it is float32, and
// rounded. Throws InvalidArgument for an input of another dtype than the variable's.
Tensor weight(CallContext& context, const LayerIdentity& layer, int slot, const char* name,
              const Shape& shape, const Tensor& input, const Initializer& initializer,
              const Regularizer& regularizer = {}, const Constraint& constraint = {});

// Returns the dtype of weights for such an input; it is asked when a weight is made. The log warns,
// once for a model, of weights that become float64 because of their input.
DType weight_dtype_for(const Tensor& input, CallContext& context, const LayerIdentity& layer);
// Checks that the variable fits the input, and gives it in the input's dtype.
Tensor weight_for(const Tensor& input, const Tensor& variable, CallContext& context,
                  const LayerIdentity& layer);

}  // namespace muster::inline v0_1::internal
