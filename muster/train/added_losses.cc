#include "muster/train/added_losses.h"

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {

Tensor sum_of_added(const std::vector<Tensor>& added, ReduceOp reduction, int64_t rows) {
  Tensor sum;
  for (const Tensor& loss : added) sum = sum.defined() ? sum + loss : loss;
  if (!sum.defined() || reduction == ReduceOp::kMean) return sum;
  return sum * static_cast<double>(rows);
}

void add_to_loss(optim::TrainOp& train_op, const Tensor& sum) {
  if (!sum.defined()) return;
  Tensor loss;
  for (const auto& entry : train_op.entries) {
    if (entry.rests) continue;
    if (!loss.defined()) loss = entry.loss;
    if (entry.loss.is_same(loss)) continue;
    throw invalid_argument(
        "layers add to the loss (an activity regularizer does, and CallContext::add_loss()), and "
        "the step has several losses",
        "after the layers, call take_losses() of the CallContext, and add the result to the right "
        "loss");
  }
  if (!loss.defined()) return;
  // Entries that share a loss share its backward, so they get the same tensor.
  const Tensor joined = loss + sum.to(loss.scalar_type());
  for (auto& entry : train_op.entries) {
    if (!entry.rests) entry.loss = joined;
  }
}

}  // namespace muster::inline v0_1
