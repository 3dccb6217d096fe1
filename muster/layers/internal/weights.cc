#include "muster/layers/internal/weights.h"

#include "muster/layers/internal/checks.h"

namespace muster::inline v0_1::internal {

const Tensor& weight(CallContext& context, const LayerIdentity& layer, int slot, const char* name,
                     const Shape& shape, const Tensor& input, const Initializer& initializer,
                     const Regularizer& regularizer, const Constraint& constraint) {
  const Tensor& value = context.variable(layer, slot, [&] {
    return VariableSpec{.name = name,
                        .shape = shape,
                        .dtype = input.scalar_type(),
                        .initializer = initializer,
                        .regularizer = regularizer,
                        .constraint = constraint};
  });
  check_same_dtype(context, layer, input, value);
  return value;
}

}  // namespace muster::inline v0_1::internal
