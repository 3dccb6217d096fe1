// Numbers of categories as vectors. Thread safety: pure functions.
#pragma once

#include <initializer_list>
#include <string>

#include "muster/preprocessing/output_mode.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::internal {

// "kOneHot"
std::string name_of(OutputMode mode);

// Throws InvalidArgument "Hashing: output_mode is kTfIdf" unless the mode is among those.
void check_output_mode(const char* layer, OutputMode mode, std::initializer_list<OutputMode> known);

// Encodes int64 numbers as OutputMode says, in float32 except for kInt; numbers outside of [0,
// depth) do not count. A scalar gives [depth]. From one axis kOneHot makes rows, also when it has
// one number alone. With `weights`, of the shape of `ids`, kCount adds these instead of ones.
Tensor encode(const Tensor& ids, OutputMode mode, int64_t depth, const Tensor& weights = {});

}  // namespace muster::inline v0_1::internal
