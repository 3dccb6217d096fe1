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
// Not supported: row-sparse variables (InvalidArgument), torch::optim::LBFGS, which computes the
// loss several times in a step, and classes of your own that derive from torch::optim::Optimizer.
// For these write an UpdateRule, or a loop with muster::Cluster.
// Thread safety: pure functions.
#pragma once

#include <optional>

#include "muster/base/export.h"
#include "muster/optim/learning_rate.h"
#include "muster/optim/optimizer.h"

namespace torch::optim {
struct AdagradOptions;
struct AdamOptions;
struct AdamWOptions;
struct LBFGSOptions;
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

}  // namespace muster::inline v0_1::optim
