#include "benchmarks/support/layers_by_hand.h"

#include <utility>

#include "muster/base/allocator.h"
#include "muster/tensor/libtorch.h"

namespace muster::bench {

LayersByHand::LayersByHand(std::string name, Layer model, const Tensor& input, uint64_t seed)
    : table_(seed), context_(table_, seed), name_(std::move(name)), model_(std::move(model)) {
  keep_freed_memory();
  const torch::NoGradGuard no_grad;
  const CallContext::Scope scope(context_, name_);
  model_(input, context_);
  for (const auto& variable : table_.variables()) {
    if (variable->spec().trainable) parameters_.push_back(variable->value());
  }
}

Tensor LayersByHand::call(const Tensor& input) {
  context_.begin_step(/*training=*/true, steps_++, 0);
  const CallContext::Scope scope(context_, name_);
  return model_(input, context_);
}

const Tensor& LayersByHand::value(const std::string& variable) const {
  return table_.find(variable)->value();
}

UpdatesByHand::UpdatesByHand(std::vector<Tensor> parameters, optim::Optimizer optimizer)
    : parameters_(std::move(parameters)), optimizer_(std::move(optimizer)) {
  for (const Tensor& parameter : parameters_) {
    optim::Segment& segment = segments_.emplace_back();
    segment.weights = parameter.detach().view({-1});
    for (size_t s = 0; s < optimizer_.rule().slots().size(); ++s)
      segment.slots.push_back(torch::zeros({parameter.numel()}));
  }
}

void UpdatesByHand::operator()() {
  const torch::NoGradGuard no_grad;
  for (size_t p = 0; p < parameters_.size(); ++p) {
    Tensor& gradient = parameters_[p].mutable_grad();
    segments_[p].gradient = gradient.contiguous().view({-1});
    optimizer_.rule().update(segments_[p], steps_);
    segments_[p].gradient.reset();
    gradient.reset();
  }
  ++steps_;
}

}  // namespace muster::bench
