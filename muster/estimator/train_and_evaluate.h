// Trains, and evaluates the checkpoints along the way: the one call most programs need.
// Thread safety: one thread.
#pragma once

#include <optional>
#include <string>

#include "muster/estimator/estimator.h"

namespace muster::inline v0_1 {

// What to train on, until which step.
struct TrainSpec {
  InputFn input_fn;
  std::optional<int64_t> max_steps;          // until the input ends when unset
  std::vector<std::shared_ptr<Hook>> hooks;  // on every worker
};

// What to evaluate on, and how often.
struct EvalSpec {
  InputFn input_fn;
  std::optional<int64_t> steps = 100;  // batches; all of the data when set to std::nullopt
  std::string name;
  bool use_ema = false;  // as that of EvaluateOptions
  // The least time between two evaluations. 0 evaluates every checkpoint; the last one is evaluated
  // in any case.
  double throttle_secs = 0;
  // How long an evaluator task waits before its first evaluation. It has no effect where training
  // and evaluation run in one task, which is the only way there is so far: the chief evaluates
  // right after saving.
  double start_delay_secs = 120;
};

// Trains to max_steps in one loop: the input is never started again for an evaluation. After a
// checkpoint the chief evaluates it, while the other workers wait at a barrier; all workers do with
// RunConfig::eval_distribute = multi_worker_mirrored(). Where max_steps is reached already, the
// existing checkpoint is evaluated. Returns the last evaluation on the chief,
// nothing on other workers. Throws InvalidArgument for bad specs and when checkpoints are disabled,
// and what train and evaluate throw.
std::optional<EvalResult> train_and_evaluate(Estimator& estimator, const TrainSpec& train_spec,
                                             const EvalSpec& eval_spec);

}  // namespace muster::inline v0_1
