#include "muster/layers/internal/call_layer.h"

#include <algorithm>

#include "muster/layers/internal/bfloat16.h"

namespace muster::inline v0_1::internal {
namespace {

bool holds(const std::vector<Tensor>& tensors, DType dtype) {
  return std::any_of(tensors.begin(), tensors.end(), [dtype](const Tensor& tensor) {
    return tensor.defined() && tensor.scalar_type() == dtype;
  });
}

}  // namespace

LayerOutputs call_in_mixed_precision(const LayerImpl& layer, const LayerInputs& inputs,
                                     CallContext& context) {
  LayerPrecision precision = layer.precision();
  if (precision == LayerPrecision::kWidenedOnCpu) {
    precision = context.device().is_cuda() ? LayerPrecision::kAsGiven : LayerPrecision::kWidened;
  }
  const bool narrow = holds(inputs.tensors, kBFloat16);
  LayerInputs taken = inputs;
  if (precision == LayerPrecision::kBfloat16) {
    for (Tensor& each : taken.tensors) each = narrowed(each);
  } else if (precision != LayerPrecision::kAsGiven || holds(inputs.tensors, kFloat32)) {
    for (Tensor& each : taken.tensors) each = widened(each);
    for (Tensor& each : taken.state) each = widened(each);
  }
  LayerOutputs outputs = layer.call(taken, context);
  if (precision == LayerPrecision::kWidened && narrow) {
    for (Tensor& each : outputs.tensors) each = narrowed(each);
  }
  return outputs;
}

}  // namespace muster::inline v0_1::internal
