#include "muster/loop/recorded_step.h"

#include <algorithm>
#include <vector>

#include "muster/tensor/libtorch.h"
#include "muster/train/added_losses.h"

namespace muster::inline v0_1::distribute {

StepResult train_recorded(Engine& engine, CallContext& calls, optim::TrainOp train_op,
                          const RecordedStep& step) {
  add_to_loss(train_op, sum_of_added(calls.take_losses(), step.reduction, step.examples));
  // A backward of the function's own may have left something.
  for (const auto& variable : engine.replica().variables().variables())
    variable->value().mutable_grad().reset();
  Tensor loss;
  std::vector<Tensor> losses;
  for (const auto& entry : train_op.entries) {
    if (entry.rests) continue;
    if (std::ranges::any_of(losses, [&](const Tensor& known) { return known.is_same(entry.loss); }))
      continue;
    losses.push_back(entry.loss);
    loss = loss.defined() ? loss + entry.loss.detach() : entry.loss.detach();
  }
  return engine.train({.train_op = &train_op,
                       .loss = loss,
                       .reduction = step.reduction,
                       .weight = static_cast<double>(step.examples),
                       .has_data = step.examples > 0,
                       .rows = step.examples,
                       .stop = step.stop},
                      nullptr);
}

}  // namespace muster::inline v0_1::distribute
