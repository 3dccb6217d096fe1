// The checks layers share, so that their messages read alike.
#pragma once

#include <string>

#include "muster/layers/layer.h"

namespace muster::inline v0_1::internal {

// "layer cnn/conv2d: expected images [batch, height, width, 3], was given float32[64, 28, 28, 1]".
[[noreturn]] void refuse_input(CallContext& context, const LayerIdentity& layer,
                               const std::string& expected, const Tensor& given,
                               const std::string& hint = {});

// Inputs of layers with weights are float32 or float64, and stay what they were at the first call.
void check_dtype(CallContext& context, const LayerIdentity& layer, const Tensor& input);
void check_same_dtype(CallContext& context, const LayerIdentity& layer, const Tensor& input,
                      const Tensor& variable);

// Throws InvalidArgument "Conv2D: filters is 0 | filters must be at least 1".
void check_positive(const char* layer, const char* field, int64_t value);

}  // namespace muster::inline v0_1::internal
