// A loop over the steps of a sequence. While a model is traced, it becomes a loop of TorchScript,
// so that the exported model takes sequences of other lengths. Thread safety: of the calling
// thread.
#pragma once

#include <functional>
#include <vector>

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::internal {

// Computes a step from the slices of the sequences, in their order, and the state before it.
// Returns its output first, and the state after it.
using StepFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>& slices,
                                                       const std::vector<Tensor>& state)>;

struct StepsResult {
  Tensor outputs{};             // [steps, ...]
  Tensor last{};                // the output of the last step
  std::vector<Tensor> state{};  // after the last step
};

// Computes all steps. `sequences` are [steps, ...], with the same steps, one at the least. While
// this thread traces, `step` is first called once more, on the first step, and must do the same for
// every step.
StepsResult compute_steps(const std::vector<Tensor>& sequences, std::vector<Tensor> state,
                          const StepFunction& step);

}  // namespace muster::inline v0_1::internal
