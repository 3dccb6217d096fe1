// Parts of tensors by their places in an axis. For sources alone. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::onnx::internal {

// x[begin:end:step] of an axis, as Python means it: places below 0 count from the end, and those
// outside are the ends. `step` is not 0.
Tensor slice_axis(const Tensor& x, int64_t axis, int64_t begin, int64_t end, int64_t step);

// The places in an axis of `size` numbers, one or more, of the numbers of a wider one: those of the
// edge again ("edge"), of the other end ("wrap"), of the mirror without the edge ("reflect"), or
// with it ("symmetric").
std::vector<int64_t> places_of(const std::string& mode, int64_t before, int64_t after,
                               int64_t size);

}  // namespace muster::inline v0_1::onnx::internal
