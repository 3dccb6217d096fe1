// Layers share these checks, so that their messages read alike.
// Thread safety: functions of the thread the context belongs to.
#pragma once

#include <string>

#include "muster/layers/layer.h"

namespace muster::inline v0_1::internal {

// Throws InvalidArgument "layer cnn/conv2d: expected images [batch, height, width, 3], was given
// float32[64, 28, 28, 1]".
[[noreturn]] void refuse_input(CallContext& context, const LayerIdentity& layer,
                               const std::string& expected, const Tensor& given,
                               const std::string& hint = {});

// Returns the tensor of inputs that are one tensor without state. Throws InvalidArgument for
// others, and for a mask unless `takes_mask`.
const Tensor& single_tensor(CallContext& context, const LayerIdentity& layer,
                            const LayerInputs& inputs, bool takes_mask);

// Inputs of layers with weights are of a dtype weights can have, and keep the dtype of the first
// call. Inside of mixed_precision() they may be bfloat16, for weights of float32.
void check_dtype(CallContext& context, const LayerIdentity& layer, const Tensor& input);
void check_same_dtype(CallContext& context, const LayerIdentity& layer, const Tensor& input,
                      const Tensor& variable);

// Inputs of layers without weights are of any floating dtype.
void check_floating(CallContext& context, const LayerIdentity& layer, const Tensor& input);

// Returns `axis` counted from the front. Throws InvalidArgument "layer softmax: axis is 3, of the
// input float32[2, 5]".
int64_t check_axis(CallContext& context, const LayerIdentity& layer, const char* field,
                   int64_t axis, const Tensor& input);

// Returns the name in errors of a layer that is being made: "Conv2D", or "Conv2D \"stem\"".
std::string titled(const char* layer, const std::string& name);
// Throws InvalidArgument "Conv2D: filters is 0 | filters must be at least 1".
void check_positive(const std::string& layer, const char* field, int64_t value);
// The same for numbers that are finite and at least 0.
void check_at_least_zero(const std::string& layer, const char* field, double value);

}  // namespace muster::inline v0_1::internal
