#include "muster/data/internal/batch_memory.h"

#include <torch/torch.h>

namespace muster::inline v0_1::data::internal {

Tensor BatchMemory::take(const Shape& shape, const Tensor& like) {
  constexpr size_t kLarge = 1 << 20;  // what allocators keep for themselves
  constexpr size_t kMost = 4;         // the one in use, the next, and what prefetch() holds
  const torch::NoGradGuard no_grad;
  Tensor fresh = at::empty({0}, like.options());
  const size_t bytes = static_cast<size_t>(c10::multiply_integers(shape)) * like.dtype().itemsize();
  if (bytes < kLarge) return fresh.resize_(shape);
  for (const Tensor& kept : kept_) {
    const at::Storage& storage = kept.storage();
    if (storage.nbytes() != bytes || storage.use_count() != 1) continue;
    return fresh.set_(storage, 0, shape);
  }
  fresh.resize_(shape);
  if (kept_.size() < kMost) kept_.emplace_back();
  // Not the tensor itself: who gets that may give it another shape.
  kept_[oldest_] = at::empty({0}, like.options()).set_(fresh.storage(), 0, shape);
  oldest_ = (oldest_ + 1) % kMost;
  return fresh;
}

}  // namespace muster::inline v0_1::data::internal
