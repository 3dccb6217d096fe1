#include "muster/parallel/internal/norm_sync.h"

#include <fmt/format.h>
#include <torch/nn/module.h>

#include "muster/base/error.h"
#include "muster/parallel/sync_batch_norm.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

// Of the two exchanges of a layer: count, means and variances; two sums of gradients.
int64_t numbers_of_forward(int64_t channels) { return 1 + 2 * channels; }
int64_t numbers_of_backward(int64_t channels) { return 2 * channels; }

}  // namespace

void NormSync::connect(const torch::nn::Module& module, const std::string& name) {
  for (const auto& item : module.named_modules()) {
    auto* const norm = dynamic_cast<SyncBatchNormImpl*>(item.value().get());
    if (norm == nullptr || norm->connected()) continue;
    if (norms_.size() == CallMeeting::kMostNumbers) {
      throw invalid_argument(fmt::format("not supported: more than {} SyncBatchNorm layers",
                                         CallMeeting::kMostNumbers),
                             "use torch::nn::BatchNorm for the others");
    }
    norm->connect(weak_from_this(), static_cast<int>(norms_.size()));
    norms_.push_back({.name = item.key().empty() ? fmt::format("\"{}\"", name)
                                                 : fmt::format("{} of \"{}\"", item.key(), name),
                      .channels = norm->options.num_features()});
  }
}

CallMeeting::Call NormSync::call(int norm, bool forward) const {
  return {.kind = forward ? CallMeeting::Kind::kNormForward : CallMeeting::Kind::kNormBackward,
          .number = norm,
          .text = fmt::format("a {} of the SyncBatchNorm {}", forward ? "forward()" : "backward()",
                              norms_.at(static_cast<size_t>(norm)).name)};
}

template <typename Start>
void NormSync::exchange(const CallMeeting::Call& call, Start start) {
  check_ready_();
  meeting_.begin(call);
  // Both are under way at once. The meeting is first: a worker that is elsewhere sends no numbers.
  Work work;
  replica_.group().explained([&] { work = start(); });
  active_ = meeting_.end().active;
  replica_.group().explained([&] { work.wait(); });
}

void NormSync::refuse_together(const std::string& message, const std::string& hint) {
  if (active_ < replica_.place().replicas()) throw invalid_argument(message, hint);
  meeting_.refuse_together(message, hint);
}

Tensor NormSync::gather(int norm, const Tensor& numbers) {
  Tensor all = torch::empty({replica_.place().replicas(), numbers.numel()}, numbers.options());
  exchange(call(norm, /*forward=*/true),
           [&] { return replica_.communicator()->all_gather(numbers, all.view({-1})); });
  return all;
}

void NormSync::sum(int norm, const Tensor& numbers) {
  exchange(call(norm, /*forward=*/false),
           [&] { return replica_.communicator()->all_reduce(numbers); });
}

void NormSync::join(const CallMeeting::Met& met) {
  const int64_t channels = norms_.at(static_cast<size_t>(met.number)).channels;
  const bool forward = met.kind == CallMeeting::Kind::kNormForward;
  const Tensor zeros =
      torch::zeros({forward ? numbers_of_forward(channels) : numbers_of_backward(channels)},
                   at::TensorOptions().dtype(kFloat64).device(replica_.device()));
  replica_.group().explained([&] {
    if (forward) {
      const Tensor all =
          torch::empty({replica_.place().replicas() * zeros.numel()}, zeros.options());
      replica_.communicator()->all_gather(zeros, all).wait();
    } else {
      replica_.communicator()->all_reduce(zeros).wait();
    }
  });
}

}  // namespace muster::inline v0_1::internal
