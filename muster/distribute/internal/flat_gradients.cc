#include "muster/distribute/internal/flat_gradients.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
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

// The buffer of a device of XLA, as one operation: written part by part, it would be computed anew
// for each parameter, since a tensor of a compiled program never changes.
Tensor joined(const std::vector<FlatParameters::Parameter>& parameters, int buffer,
              const std::vector<Tensor>& gradients, const at::TensorOptions& options) {
  std::vector<Tensor> parts;
  for (size_t p = 0; p < parameters.size(); ++p) {
    const FlatParameters::Parameter& parameter = parameters[p];
    if (parameter.buffer != buffer) continue;
    const int64_t filled = gradients[p].defined() ? parameter.elements : 0;
    if (filled > 0) parts.push_back(gradients[p].reshape({-1}));
    if (parameter.padded > filled)
      parts.push_back(torch::zeros({parameter.padded - filled}, options));
  }
  return at::cat(parts);
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
  std::vector<Tensor> given;
  for (const auto& parameter : parameters_.parameters())
    given.push_back(std::exchange(parameter.variable->value().mutable_grad(), {}));
  for (size_t p = 0; p < given.size(); ++p) used_[p] = given[p].defined();
  if (gradients_.front().is_xla()) {
    for (size_t b = 0; b < gradients_.size(); ++b)
      gradients_[b] =
          joined(parameters_.parameters(), static_cast<int>(b), given, gradients_[b].options());
    return;
  }
  // Where there is none, the derivative of a regularizer is added to zeros, not to an old gradient.
  if (std::ranges::find(used_, false) != used_.end()) {
    for (const Tensor& buffer : gradients_) buffer.zero_();
  }
  std::vector<Tensor> to, from;
  for (size_t p = 0; p < given.size(); ++p) {
    if (!used_[p]) continue;
    to.push_back(views_[p]);
    from.push_back(given[p].contiguous().view({-1}));
  }
  copy_all(to, from);
}

}  // namespace muster::inline v0_1::distribute::internal
