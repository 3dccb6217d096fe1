#include "muster/tensor/cache_colored.h"

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

constexpr int64_t kPlaces = 16;
// Measured with a loop over three tensors of 100 MB: 64 bytes apart twice as fast as 0, 64 KiB
// apart three times.
constexpr int64_t kStride = 64 * 1024;
constexpr int64_t kLong = 4 * 1024 * 1024;  // bytes from which on the memory between costs little

}  // namespace

Tensor cache_colored(int64_t elements, double value, const Tensor& like, int64_t place) {
  const auto size = static_cast<int64_t>(like.element_size());
  if (!like.is_cpu() || elements * size < kLong)
    return torch::full({elements}, value, like.options());
  const int64_t before = place % kPlaces * kStride / size;
  return torch::full({before + elements}, value, like.options()).slice(0, before);
}

}  // namespace muster::inline v0_1
