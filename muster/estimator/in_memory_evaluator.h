// A hook that evaluates the weights in training, without a checkpoint. Thread safety: as Hook.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/estimator/estimator.h"
#include "muster/train/hook.h"
#include "muster/train/input_fn.h"

namespace muster::inline v0_1::hooks {

// Options of in_memory_evaluator().
struct InMemoryEvaluatorOptions {
  std::optional<int64_t> steps{};              // batches; all of the data when unset
  std::vector<std::shared_ptr<Hook>> hooks{};  // of the evaluations
  std::string name{};                          // events go to eval/ or eval_<name>/
  int64_t every_n_iter = 100;                  // steps between two evaluations; at least 1
};

// Evaluates `estimator`, which trains with this hook and outlives it: before the first step, every
// so many steps, and behind the last one. The weights are copied into the model that evaluates, so
// training goes on as if nothing was. Results go where those of Estimator::evaluate() go, and to
// Hook::after_evaluate() of all hooks, but for those of the last step. For training on one replica;
// on several the hook throws InvalidArgument, for train_and_evaluate() does it there. Throws
// InvalidArgument for every_n_iter and steps below 1.
MUSTER_EXPORT std::shared_ptr<Hook> in_memory_evaluator(
    Estimator& estimator, const InputFn& input_fn, const InMemoryEvaluatorOptions& options = {});

}  // namespace muster::inline v0_1::hooks
