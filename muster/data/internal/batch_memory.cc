#include "muster/data/internal/batch_memory.h"

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data::internal {

Tensor BatchMemory::take(size_t value, const Shape& shape, const Tensor& like) {
  constexpr size_t kLarge = 1 << 20;  // allocators keep smaller blocks for themselves
  constexpr size_t kMost = 4;         // the one in use, the next, and those of prefetch()
  const torch::NoGradGuard no_grad;
  Tensor fresh = at::empty({0}, like.options());
  const size_t bytes = static_cast<size_t>(c10::multiply_integers(shape)) * like.dtype().itemsize();
  if (bytes < kLarge) return fresh.resize_(shape);
  if (values_.size() <= value) values_.resize(value + 1);
  auto& [all_kept, oldest] = values_[value];
  for (const Tensor& kept : all_kept) {
    const at::Storage& storage = kept.storage();
    if (storage.nbytes() != bytes || storage.use_count() != 1) continue;
    return fresh.set_(storage, 0, shape);
  }
  fresh.resize_(shape);
  if (all_kept.size() < kMost) all_kept.emplace_back();
  // Not the tensor itself: its receiver may give it another shape.
  all_kept[oldest] = at::empty({0}, like.options()).set_(fresh.storage(), 0, shape);
  oldest = (oldest + 1) % kMost;
  return fresh;
}

}  // namespace muster::inline v0_1::data::internal
