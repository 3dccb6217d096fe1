#include "muster/parallel/internal/step_watch.h"

#include <algorithm>
#include <vector>

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

constexpr int64_t kBlock = 1024;

// The numbers of `value`: in the order of memory where `weight` has them in the same order there,
// so that nothing is copied.
Tensor flat(const Tensor& value, const Tensor& weight) {
  const Tensor plain = value.detach();
  if (plain.is_non_overlapping_and_dense() && plain.strides() == weight.strides())
    return plain.as_strided({plain.numel()}, {1}, plain.storage_offset());
  return plain.reshape({-1});
}

// int64 [1]: where the gradient is largest, as the head of this file says.
Tensor largest(const Tensor& gradient) {
  const int64_t block = gradient.is_cpu() ? kBlock : gradient.numel();
  for (int64_t begin = 0;; begin += block) {
    const Tensor sizes = gradient.slice(0, begin, begin + block).abs();
    const Tensor index = sizes.argmax(0, /*keepdim=*/true);
    const bool last = begin + block >= gradient.numel();
    if (last || sizes.index_select(0, index).item<double>() != 0) return index + begin;
  }
}

}  // namespace

void StepWatch::note(size_t number, const Tensor& weight) {
  const Tensor& gradient = weight.grad();
  if (!gradient.defined() || gradient.layout() != at::kStrided || gradient.numel() == 0 ||
      watched_.contains(number))
    return;
  const torch::NoGradGuard no_grad;
  const Tensor index = largest(flat(gradient, weight));
  watched_.emplace(number, Watched{.weight = weight,
                                   .index = index,
                                   .value = flat(weight, weight).index_select(0, index)});
}

bool StepWatch::changed() const {
  const torch::NoGradGuard no_grad;
  std::vector<Tensor> before, now;
  for (const auto& [number, watched] : watched_) {
    before.push_back(watched.value.to(kFloat64));
    now.push_back(flat(watched.weight, watched.weight).index_select(0, watched.index).to(kFloat64));
  }
  return !before.empty() && !torch::cat(before).equal(torch::cat(now));
}

}  // namespace muster::inline v0_1::internal
