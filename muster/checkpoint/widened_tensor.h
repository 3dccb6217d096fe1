// Unsigned numbers that LibTorch has no dtype for, in the next signed one.
// Thread safety: a free function.
#pragma once

#include <cstddef>
#include <string>

#include "muster/base/bytes.h"
#include "muster/base/export.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// Gives numbers of 2 bytes as int32, of 4 as int64, and of 8 as int64 too, on the CPU. `bytes` are
// those of the tensor, little-endian. Throws InvalidArgument naming `name`, the tensor, for a
// number above 9223372036854775807.
MUSTER_PART_EXPORT Tensor widened_tensor(Bytes bytes, size_t bytes_each, const Shape& shape,
                                         const std::string& name);

}  // namespace muster::inline v0_1
