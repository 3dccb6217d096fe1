// The memory of flat buffers: those of weights and of gradients. Thread safety: pure functions.
#pragma once

#include "muster/tensor/libtorch.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::distribute::internal {

// Returns `bytes`, zeroed memory of a communicator, as numbers of a dtype. XLA has no views of
// other dtypes: torch_xla would copy such a view through the CPU whenever it is read. So the
// numbers there are a tensor of their own, and `bytes`, which nothing reads, takes no memory.
inline Tensor as_numbers(const Tensor& bytes, DType dtype) {
  if (!bytes.is_xla()) return bytes.view(dtype);
  const auto size = static_cast<int64_t>(c10::elementSize(dtype));
  return torch::zeros({bytes.numel() / size}, bytes.options().dtype(dtype));
}

}  // namespace muster::inline v0_1::distribute::internal
