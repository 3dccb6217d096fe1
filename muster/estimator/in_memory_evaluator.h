// A hook that evaluates the weights during training, without a checkpoint. Thread safety: as Hook.
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
  std::vector<std::shared_ptr<Hook>> hooks{};  // hooks of the evaluations
  std::string name{};                          // events go to eval/ or eval_<name>/
  int64_t every_n_iter = 100;                  // steps between two evaluations; at least 1
};

// Evaluates `estimator`, which trains with this hook and must outlive it: before the first step,
// every `every_n_iter` steps, and after the last step. The weights are copied into the evaluating
// model, so training is not affected. Results go where those of Estimator::evaluate() go, and,
// except after the last step, to Hook::after_evaluate() of all hooks. Only for training on one
// replica; on several replicas the hook throws InvalidArgument: use train_and_evaluate() there.
// Throws InvalidArgument for every_n_iter and steps below 1.
MUSTER_EXPORT std::shared_ptr<Hook> in_memory_evaluator(
    Estimator& estimator, const InputFn& input_fn, const InMemoryEvaluatorOptions& options = {});

}  // namespace muster::inline v0_1::hooks
