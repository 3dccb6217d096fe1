// Trains, and evaluates the checkpoints along the way: the one call most programs need.
// Thread safety: one thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/estimator/estimator.h"

namespace muster::inline v0_1 {

class Exporter;

// What to train on, until which step.
struct TrainSpec {
  InputFn input_fn{};
  std::optional<int64_t> max_steps{};          // until the input ends when unset
  std::vector<std::shared_ptr<Hook>> hooks{};  // on every worker
};

// What to evaluate on, how often, and what to export then. The fields of tf.estimator's EvalSpec
// stand in its order; those that it does not have follow.
struct EvalSpec {
  InputFn input_fn{};
  // Batches; all of the data when set to std::nullopt. It is 100 as in tf.estimator, and not all as
  // in EvaluateOptions, because training waits for each of these evaluations.
  std::optional<int64_t> steps = 100;
  // Tells evaluations apart: events go to eval/ or eval_<name>/. It may be empty where there is one
  // EvalSpec; of several each has one of its own. No slash may be in it.
  std::string name{};
  std::vector<std::shared_ptr<Hook>> hooks{};  // as those of EvaluateOptions
  // Called after each evaluation, by the task that made it, in this order, each with the folder
  // model_dir/export/<its name>. No two exporters of a call have the same name. The last checkpoint
  // of a run is told to them as the final one, however the run ends, unless they have exported it
  // already.
  std::vector<std::shared_ptr<Exporter>> exporters{};
  // How long a task of type evaluator waits before its first evaluation, unless training is over
  // sooner. It has no effect where the chief evaluates, which it does right after saving.
  Seconds start_delay_secs{};
  // The least time between the begins of two evaluations. 0 evaluates every checkpoint; the last
  // one is evaluated in any case.
  Seconds throttle_secs{};
  bool use_ema = false;  // as that of EvaluateOptions
  // What a task of type evaluator evaluates next: the newest checkpoint there is, so those that
  // were saved while it was busy are left out; or every one, in the order they were saved, which
  // then stay in model_dir until it has come to them. It has no effect where the chief evaluates.
  bool every_checkpoint = false;
};

// What train_and_evaluate() gives back of several EvalSpecs.
struct TrainAndEvaluateResult {
  TrainResult training{};  // on an evaluator only the step of the last checkpoint
  // The last result of each EvalSpec, by its name, on the task that evaluated the last checkpoint:
  // the chief, or an evaluator beside it. Empty elsewhere.
  std::map<std::string, EvalResult> evaluations{};
  // The folders that this task wrote, by the names of their exporters, in order.
  std::map<std::string, std::vector<std::string>> exports{};
};

// Trains to max_steps in one loop: the input is never started again for an evaluation. After a
// checkpoint the chief evaluates it on all of `eval_specs`, one after another, while the other
// workers wait at a barrier; all workers do with RunConfig::eval_distribute =
// multi_worker_mirrored(). Where an evaluation is put off (throttle_secs), the log says until when.
// The last checkpoint is always evaluated; where max_steps is reached already, the one there is.
// At a clean end model_dir says how it ended (muster/estimator/run_end.h). Each evaluation is noted
// in evaluations.jsonl there. Throws InvalidArgument for bad specs and when checkpoints are
// disabled, and what train, evaluate and exporters throw.
//
// A task of type evaluator does not train, nor does it meet the others: it evaluates the
// checkpoints of model_dir as they come, and ends behind the last one. While one is at work the
// chief does not evaluate; hooks and RunConfig::keep_best hear of its evaluations. The chief
// evaluates whenever there is none, and the last checkpoint unless an evaluator has said that it
// will. On an evaluator this throws as well: InvalidArgument without a model_dir, Timeout by
// RunConfig::evaluator_timeout, Corrupt when the last checkpoint is damaged, and Cancelled
// when it is asked to stop.
MUSTER_EXPORT TrainAndEvaluateResult train_and_evaluate(Estimator& estimator,
                                                        const TrainSpec& train_spec,
                                                        const std::vector<EvalSpec>& eval_specs);

// The same with one EvalSpec. Returns its last result on the task that evaluated the last
// checkpoint, nothing elsewhere.
MUSTER_EXPORT std::optional<EvalResult> train_and_evaluate(Estimator& estimator,
                                                           const TrainSpec& train_spec,
                                                           const EvalSpec& eval_spec);

}  // namespace muster::inline v0_1
