#include "muster/layers/internal/weights.h"

#include "muster/layers/internal/bfloat16.h"
#include "muster/layers/internal/checks.h"

namespace muster::inline v0_1::internal {

Tensor weight_for(const Tensor& input, const Tensor& variable, CallContext& context,
                  const LayerIdentity& layer) {
  check_same_dtype(context, layer, input, variable);
  return input.scalar_type() == kBFloat16 ? narrowed_weight(variable) : variable;
}

Tensor weight(CallContext& context, const LayerIdentity& layer, int slot, const char* name,
              const Shape& shape, const Tensor& input, const Initializer& initializer,
              const Regularizer& regularizer, const Constraint& constraint) {
  const Tensor& variable = context.variable(layer, slot, [&] {
    return VariableSpec{.name = name,
                        .shape = shape,
                        .dtype = weight_dtype_for(input),
                        .initializer = initializer,
                        .regularizer = regularizer,
                        .constraint = constraint};
  });
  return weight_for(input, variable, context, layer);
}

}  // namespace muster::inline v0_1::internal
