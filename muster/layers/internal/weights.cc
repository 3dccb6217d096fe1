#include "muster/layers/internal/weights.h"

#include <fmt/format.h>

#include <mutex>
#include <set>

#include "muster/base/log.h"
#include "muster/layers/internal/bfloat16.h"
#include "muster/layers/internal/checks.h"

namespace muster::inline v0_1::internal {

namespace {

// One feature in float64 makes all layers after it float64: the names say where that began.
void warn_of_float64(const std::string& layer, const Tensor& input) {
  static std::mutex mutex;
  static auto& told = *new std::set<std::string>;  // models; "" for layers of none
  const size_t scope = layer.find('/');
  {
    const std::lock_guard lock(mutex);
    if (!told.insert(scope == std::string::npos ? "" : layer.substr(0, scope)).second) return;
  }
  log::warning(fmt::format(
      "layer {}: its input is {}, so its weights are float64, and so is what follows: twice the "
      "memory, and slower; where that is not meant, give it x.to(kFloat32)",
      layer, describe(input)));
}

}  // namespace

DType weight_dtype_for(const Tensor& input, CallContext& context, const LayerIdentity& layer) {
  if (input.scalar_type() == kBFloat16) return kFloat32;
  if (input.scalar_type() == kFloat64 && context.training() && context.replica() == 0)
    warn_of_float64(context.name_of(layer), input);
  return input.scalar_type();
}

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
                        .dtype = weight_dtype_for(input, context, layer),
                        .initializer = initializer,
                        .regularizer = regularizer,
                        .constraint = constraint};
  });
  return weight_for(input, variable, context, layer);
}

}  // namespace muster::inline v0_1::internal
