#include "muster/collectives/internal/sum.h"

#include <algorithm>
#include <cstring>

#include "muster/base/error.h"

namespace muster::inline v0_1::internal {
namespace {

// Sums of signed integers wrap around, on every machine alike; plain int64_t would be undefined
// behaviour.
template <typename T>
void sum(T* out, std::span<const std::byte* const> inputs, int64_t count) {
  if (inputs.size() == 2) {
    const T* a = reinterpret_cast<const T*>(inputs[0]);
    const T* b = reinterpret_cast<const T*>(inputs[1]);
    // The same element of `out` and one input may be the same memory: that is no dependency between
    // iterations.
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
    return;
  }
  // `out` may be a late input, so partial sums need a place of their own; it stays in the
  // first-level cache.
  constexpr int64_t kBlock = 1024;
  alignas(64) T partial[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t n = std::min(kBlock, count - begin);
    std::memcpy(partial, reinterpret_cast<const T*>(inputs[0]) + begin, n * sizeof(T));
    for (size_t r = 1; r < inputs.size(); ++r) {
      const T* in = reinterpret_cast<const T*>(inputs[r]) + begin;
      for (int64_t i = 0; i < n; ++i) partial[i] += in[i];
    }
    std::memcpy(out + begin, partial, n * sizeof(T));
  }
}

}  // namespace

void sum_in_rank_order(ElementType type, std::byte* out, std::span<const std::byte* const> inputs,
                       int64_t count) {
  switch (type) {
    case ElementType::kFloat32:
      return sum(reinterpret_cast<float*>(out), inputs, count);
    case ElementType::kFloat64:
      return sum(reinterpret_cast<double*>(out), inputs, count);
    case ElementType::kInt64:
      return sum(reinterpret_cast<uint64_t*>(out), inputs, count);
    case ElementType::kByte:
      break;
  }
  throw invalid_argument("raw bytes cannot be summed");
}

}  // namespace muster::inline v0_1::internal
