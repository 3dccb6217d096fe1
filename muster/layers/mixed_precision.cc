#include "muster/layers/mixed_precision.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/nearest.h"
#include "muster/layers/internal/bfloat16.h"
#include "muster/layers/internal/call_layer.h"
#include "muster/layers/internal/call_scopes.h"
#include "muster/layers/internal/mixed_precision_impl.h"

namespace muster::inline v0_1 {
namespace internal {
namespace {

void check_mixed_call(const LayerInputs& inputs, const Device& device) {
  check_multiplies_bfloat16(device);
  for (const Tensor& each : inputs.tensors) {
    if (each.scalar_type() != kFloat64) continue;
    throw invalid_argument(
        fmt::format("mixed_precision: the policy is \"bfloat16\", and an input {}", describe(each)),
        "weights are float32, so convert the features in the input function: to(kFloat32)");
  }
}

}  // namespace

LayerOutputs MixedPrecisionImpl::call(const LayerInputs& inputs, CallContext& context) const {
  // Shapes are the same in every dtype, and may be wanted on another machine.
  if (context.for_shapes_alone()) return layer_.impl().call(inputs, context);
  const bool begins = mixed_ && !context.mixed_precision();
  if (begins) check_mixed_call(inputs, context.device());
  const MixedPrecisionScope inside(context, mixed_);
  LayerOutputs outputs = call_layer(layer_.impl(), inputs, context);
  if (!begins) return outputs;
  for (Tensor& each : outputs.tensors) each = widened(each);
  for (Tensor& each : outputs.state) each = widened(each);
  return outputs;
}

}  // namespace internal

namespace {

bool is_mixed(std::string_view policy) {
  if (policy == "bfloat16" || policy == "mixed_bfloat16") return true;
  if (policy == "float32") return false;
  const std::string text = fmt::format("mixed_precision: the policy is \"{}\"", policy);
  const std::string allowed = "a policy is \"bfloat16\" (or \"mixed_bfloat16\") or \"float32\"";
  if (policy == "float16" || policy == "mixed_float16") {
    throw invalid_argument(text, allowed + "; bfloat16 is as small, and has the range of float32");
  }
  const auto meant = nearest(std::string(policy), {"bfloat16", "mixed_bfloat16", "float32"});
  throw invalid_argument(
      text, meant ? fmt::format("{}; did you mean \"{}\"?", allowed, *meant) : allowed);
}

}  // namespace

Layer mixed_precision(std::string_view policy, Layer layer) {
  return Layer(std::make_shared<internal::MixedPrecisionImpl>(is_mixed(policy), std::move(layer)));
}

}  // namespace muster::inline v0_1
