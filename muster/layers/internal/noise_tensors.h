// Random tensors of layers, drawn from the key of a call.
// Thread safety: pure functions.
#pragma once

#include "muster/base/random.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::internal {

// Makes a tensor of `shape`, of the dtype and on the device of `like`: an element is 0 with
// probability `rate`, else `kept`. Word i of the key's stream decides on element i.
Tensor drop_mask(const Tensor& like, at::IntArrayRef shape, RandomKey key, double rate,
                 double kept);

// Makes normal numbers of the shape, the dtype and on the device of `like`.
Tensor normal_noise(const Tensor& like, RandomKey key, double mean, double stddev);

// Throws InvalidArgument "Dropout: rate is 1" unless 0 <= rate < 1.
void check_rate(const std::string& layer, double rate, const char* field = "rate");

}  // namespace muster::inline v0_1::internal
