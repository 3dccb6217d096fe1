#include "muster/distribute/internal/flat_gradients.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <utility>

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute::internal {
namespace {

// In a few kernels for all of them, if this LibTorch has those.
void copy_all(const std::vector<Tensor>& to, const std::vector<Tensor>& from) {
  static const auto op = c10::Dispatcher::singleton().findSchema({"aten::_foreach_copy_", ""});
  if (op && !to.empty() && to.front().is_cuda()) {
    op->typed<void(at::TensorList, at::TensorList, bool)>().call(to, from, /*non_blocking=*/false);
    return;
  }
  for (size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
}

}  // namespace

FlatGradients::FlatGradients(const FlatParameters& parameters) : parameters_(parameters) {
  for (const FlatParameters::Buffer& buffer : parameters_.buffers())
    gradients_.push_back(torch::zeros_like(buffer.weights.detach()));
  for (const auto& parameter : parameters_.parameters()) {
    views_.push_back(gradients_[static_cast<size_t>(parameter.buffer)].slice(
        0, parameter.offset, parameter.offset + parameter.elements));
  }
  used_.assign(views_.size(), false);
}

void FlatGradients::take() {
  const torch::NoGradGuard no_grad;
  std::vector<Tensor> to, from;
  bool all = true;
  for (size_t p = 0; p < views_.size(); ++p) {
    const Tensor& value = parameters_.parameters()[p].variable->value();
    const Tensor gradient = std::exchange(value.mutable_grad(), {});
    used_[p] = gradient.defined();
    all &= used_[p];
    if (!used_[p]) continue;
    to.push_back(views_[p]);
    from.push_back(gradient.contiguous().view({-1}));
  }
  // Where there is none, the derivative of a regularizer is added to zeros, not to an old gradient.
  if (!all) {
    for (const Tensor& buffer : gradients_) buffer.zero_();
  }
  copy_all(to, from);
}

}  // namespace muster::inline v0_1::distribute::internal
