// How many elements a weight takes in a flat buffer. Thread safety: a pure function.
#pragma once

#include <cstdint>

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::distribute::internal {

// Weights begin on cache lines, which vector loads like best.
inline int64_t padded_elements(int64_t elements, DType dtype) {
  constexpr int64_t kAlignment = 64;  // bytes
  const int64_t step = kAlignment / static_cast<int64_t>(c10::elementSize(dtype));
  return (elements + step - 1) / step * step;
}

}  // namespace muster::inline v0_1::distribute::internal
