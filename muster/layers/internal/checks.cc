#include "muster/layers/internal/checks.h"

#include <fmt/format.h>

#include <cmath>

#include "muster/base/error.h"
#include "muster/tensor/weight_dtype.h"

namespace muster::inline v0_1::internal {

void refuse_input(CallContext& context, const LayerIdentity& layer, const std::string& expected,
                  const Tensor& given, const std::string& hint) {
  throw invalid_argument(fmt::format("layer {}: expected {}, was given {}", context.name_of(layer),
                                     expected, describe(given)),
                         hint);
}

const Tensor& single_tensor(CallContext& context, const LayerIdentity& layer,
                            const LayerInputs& inputs, bool takes_mask) {
  if (inputs.tensors.size() != 1) {
    throw invalid_argument(fmt::format("layer {}: expected one tensor, was given {}",
                                       context.name_of(layer), inputs.tensors.size()));
  }
  if (!inputs.state.empty()) {
    throw invalid_argument(
        fmt::format("layer {}: was given a state, and has none", context.name_of(layer)),
        "give the state to the recurrent layer it belongs to");
  }
  if (!takes_mask && !inputs.masks.empty() && inputs.masks[0].defined()) {
    throw invalid_argument(
        fmt::format("layer {}: was given a mask, which it cannot take", context.name_of(layer)),
        "put RemoveMask() before it, or consume the mask earlier, as a recurrent layer does; "
        "padding then counts like any other step (Keras drops the mask silently). If your own "
        "layer's result has the steps of its input, override keeps_steps()");
  }
  return inputs.tensors[0];
}

namespace {

// Says how an input that is not of a floating dtype, or of too narrow a one, is converted.
std::string how_to_convert(const Tensor& input) {
  if (input.is_floating_point())
    return "convert the features in the input function: x.to(kFloat32)";
  // Bytes of several axes are images.
  if (input.scalar_type() == at::kByte && input.dim() >= 3)
    return "convert images in the input function: image.to(kFloat32) / 255";
  return "convert numbers in the input function: x.to(kFloat32); ids of words, users or categories "
         "go through an Embedding or a CategoryEncoding";
}

}  // namespace

void check_dtype(CallContext& context, const LayerIdentity& layer, const Tensor& input) {
  if (is_weight_dtype(input.scalar_type())) return;
  if (context.mixed_precision() && input.scalar_type() == kBFloat16) return;
  refuse_input(context, layer, "a " + weight_dtype_names() + " input", input,
               how_to_convert(input));
}

void check_same_dtype(CallContext& context, const LayerIdentity& layer, const Tensor& input,
                      const Tensor& variable) {
  if (input.scalar_type() == variable.scalar_type()) return;
  if (context.mixed_precision() && input.scalar_type() == kBFloat16 &&
      variable.scalar_type() == kFloat32) {
    return;
  }
  refuse_input(context, layer,
               fmt::format("the dtype of its variables, {}", dtype_name(variable.scalar_type())),
               input,
               fmt::format("use the dtype of its first call: x.to({})",
                           variable.scalar_type() == kFloat64 ? "kFloat64" : "kFloat32"));
}

void check_floating(CallContext& context, const LayerIdentity& layer, const Tensor& input) {
  // An error names the layer, so it is named at every call.
  context.name_of(layer);
  if (input.is_floating_point()) return;
  refuse_input(context, layer, "an input of a floating dtype", input, how_to_convert(input));
}

int64_t check_axis(CallContext& context, const LayerIdentity& layer, const char* field,
                   int64_t axis, const Tensor& input) {
  if (axis >= -input.dim() && axis < input.dim()) return axis < 0 ? axis + input.dim() : axis;
  throw invalid_argument(
      fmt::format("layer {}: {} is {}, of the input {}", context.name_of(layer), field, axis,
                  describe(input)),
      fmt::format("{} must be between {} and {}", field, -input.dim(), input.dim() - 1));
}

std::string titled(const char* layer, const std::string& name) {
  return name.empty() ? std::string(layer) : fmt::format("{} \"{}\"", layer, name);
}

void check_positive(const std::string& layer, const char* field, int64_t value) {
  if (value >= 1) return;
  throw invalid_argument(fmt::format("{}: {} is {}", layer, field, value),
                         fmt::format("{} must be at least 1", field));
}

void check_at_least_zero(const std::string& layer, const char* field, double value) {
  if (std::isfinite(value) && value >= 0) return;
  throw invalid_argument(fmt::format("{}: {} is {}", layer, field, value),
                         fmt::format("{} must be finite and at least 0", field));
}

}  // namespace muster::inline v0_1::internal
