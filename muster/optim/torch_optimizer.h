// Optimizers with LibTorch's formulas, made from the options of torch::optim. A function that
// trained with torch::optim::Adam keeps its options and its bits:
//
//   const auto adam = optim::torch_optimizer(torch::optim::AdamOptions(2e-3).weight_decay(1e-2));
//   adam.minimize(loss);
//
// They are Optimizers like all others: named(), with(), clip_by_global_norm() and minimize() work;
// gradients are averaged over replicas before the update; slots are in checkpoints. The update is
// made by torch::optim itself, with the state that is in the slots, one variable after the other.
// On one replica a step has the bits of backward() and step() of torch::optim. Like torch::optim,
// each variable counts the updates in which it had a gradient: the slot "step".
//
// A class of your own that derives from torch::optim::Optimizer needs two functions for its state:
// TorchOptimizerClass.
//
// Not supported (InvalidArgument): row-sparse variables, and torch::optim::LBFGS, which computes
// the loss several times in a step. For it write a loop with muster::Cluster. Thread safety: pure
// functions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/optim/learning_rate.h"
#include "muster/optim/optimizer.h"
#include "muster/optim/update_rule.h"
#include "muster/tensor/tensor.h"

namespace torch::optim {
struct AdagradOptions;
struct AdamOptions;
struct AdamWOptions;
struct LBFGSOptions;
class Optimizer;
class OptimizerParamState;
struct RMSpropOptions;
struct SGDOptions;
}  // namespace torch::optim

namespace muster::inline v0_1::optim {

// Returns the optimizer "Adam". `learning_rate`, if given, is used in place of options.lr(): a
// number or a schedule of the optimizer's own updates. Throws InvalidArgument for options that
// torch::optim refuses. The same holds for the others.
MUSTER_EXPORT Optimizer torch_optimizer(const torch::optim::AdamOptions& options,
                                        const std::optional<LearningRate>& learning_rate = {});
// Returns the optimizer "AdamW".
MUSTER_EXPORT Optimizer torch_optimizer(const torch::optim::AdamWOptions& options,
                                        const std::optional<LearningRate>& learning_rate = {});
// Returns the optimizer "SGD".
MUSTER_EXPORT Optimizer torch_optimizer(const torch::optim::SGDOptions& options,
                                        const std::optional<LearningRate>& learning_rate = {});
// Returns the optimizer "RMSprop".
MUSTER_EXPORT Optimizer torch_optimizer(const torch::optim::RMSpropOptions& options,
                                        const std::optional<LearningRate>& learning_rate = {});
// Returns the optimizer "Adagrad".
MUSTER_EXPORT Optimizer torch_optimizer(const torch::optim::AdagradOptions& options,
                                        const std::optional<LearningRate>& learning_rate = {});
// Throws InvalidArgument: not supported.
[[noreturn]] MUSTER_EXPORT Optimizer
torch_optimizer(const torch::optim::LBFGSOptions& options,
                const std::optional<LearningRate>& learning_rate = {});

// A class of a program's own that derives from torch::optim::Optimizer. Its functions may be called
// from several threads at once.
struct TorchOptimizerClass {
  // The name of the class, which begins the names of its slots in checkpoints: "Lion".
  std::string name{};
  // Makes an optimizer of one parameter. It is called for each variable at each update.
  std::function<std::unique_ptr<torch::optim::Optimizer>(const Tensor& parameter)> make{};
  // The tensors of a parameter's state. A slot without a shape has the parameter's; a number has
  // the shape {}. Empty: the class has no state, or counts its steps alone.
  std::vector<SlotSpec> slots{};
  // Returns the tensors of a state after a step, in the order of `slots`.
  std::function<std::vector<Tensor>(const torch::optim::OptimizerParamState& state)> tensors_of{};
  // Makes the state before a step: from the tensors, in the order of `slots`, and the number of
  // earlier steps of the parameter, at least 1. The state may hold these tensors and write to them.
  std::function<std::unique_ptr<torch::optim::OptimizerParamState>(
      const std::vector<Tensor>& tensors, int64_t step)>
      state_of{};
};

// Returns an optimizer of this class. Its options implement get_lr() and set_lr(). Three steps are
// tried first, to find state that the two functions do not keep. Throws InvalidArgument for a class
// that fails in this trial, that makes other steps from the state that is kept, or that needs a
// closure.
MUSTER_EXPORT Optimizer torch_optimizer(TorchOptimizerClass of,
                                        const std::optional<LearningRate>& learning_rate = {});

}  // namespace muster::inline v0_1::optim
