// Trains, and evaluates checkpoints during training: the one call most programs need.
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

// The input of training, and its last step.
struct TrainSpec {
  InputFn input_fn{};
  std::optional<int64_t> max_steps{};          // unset: until the input ends
  std::vector<std::shared_ptr<Hook>> hooks{};  // on every worker
};

// The input of an evaluation, how often to evaluate, and what to export then. Fields of
// tf.estimator's EvalSpec come first, in its order; others follow.
struct EvalSpec {
  InputFn input_fn{};
  // Batches; std::nullopt: all of the data. The default is 100, as in tf.estimator, not all as in
  // EvaluateOptions, because training waits for each of these evaluations.
  std::optional<int64_t> steps = 100;
  // Distinguishes evaluations: events go to eval/ or eval_<name>/. It may be empty for a single
  // EvalSpec; several need different names. Must have no slash.
  std::string name{};
  std::vector<std::shared_ptr<Hook>> hooks{};  // as in EvaluateOptions
  // Called in order after each evaluation, by the task that evaluated, each with the folder
  // model_dir/export/<its name>. All exporters of a call must have different names. The last
  // checkpoint of a run is passed as the final one, however the run ends, unless they have already
  // exported it.
  std::vector<std::shared_ptr<Exporter>> exporters{};
  // How long a task of type evaluator waits before its first evaluation, unless training ends
  // earlier. Has no effect if the chief evaluates: it evaluates right after saving.
  Seconds start_delay_secs{};
  // The minimum time between the beginnings of two evaluations. 0 evaluates every checkpoint; the
  // last one is always evaluated.
  Seconds throttle_secs{};
  bool use_ema = false;  // as in EvaluateOptions
  // Which checkpoint a task of type evaluator evaluates next. False: the newest, so checkpoints
  // that were saved during an evaluation may be skipped. True: every one, in the order of saving;
  // they stay in model_dir until the evaluator has evaluated them. Has no effect if the chief
  // evaluates.
  bool every_checkpoint = false;
};

// The result of train_and_evaluate() with several EvalSpecs.
struct TrainAndEvaluateResult {
  TrainResult training{};  // on an evaluator only the step of the last checkpoint
  // The last result of each EvalSpec, by name, on the task that evaluated the last checkpoint: the
  // chief or an evaluator. Empty elsewhere.
  std::map<std::string, EvalResult> evaluations{};
  // The folders that this task exported, in order, by the exporter's name.
  std::map<std::string, std::vector<std::string>> exports{};
};

// Trains to max_steps in one loop: evaluations do not restart the training input. After a
// checkpoint the chief evaluates it on all of `eval_specs`, one after another, while the other
// workers wait at a barrier; with RunConfig::eval_distribute = multi_worker_mirrored() all workers
// evaluate. If an evaluation is postponed (throttle_secs), the log says until when. The last
// checkpoint is always evaluated, also when max_steps was reached before. At a clean end, model_dir
// says how the run ended (muster/estimator/run_end.h). Each evaluation is recorded in
// evaluations.jsonl there. Throws InvalidArgument for invalid specs and when checkpoints are
// disabled, and the errors of train, evaluate and exporters.
//
// A task of type evaluator does not train and does not connect to the workers: it evaluates the
// checkpoints of model_dir as they appear, and ends after the last one. While an evaluator runs,
// the chief does not evaluate; hooks and RunConfig::keep_best get the evaluator's results. The
// chief evaluates when no evaluator runs, and evaluates the last checkpoint unless an evaluator has
// announced that it will. On an evaluator this also throws InvalidArgument without a model_dir,
// Timeout after RunConfig::evaluator_timeout, Corrupt when the last checkpoint is damaged, and
// Cancelled when it is asked to stop.
MUSTER_EXPORT TrainAndEvaluateResult train_and_evaluate(Estimator& estimator,
                                                        const TrainSpec& train_spec,
                                                        const std::vector<EvalSpec>& eval_specs);

// The same with one EvalSpec. Returns its last result on the task that evaluated the last
// checkpoint, nothing on other tasks.
MUSTER_EXPORT std::optional<EvalResult> train_and_evaluate(Estimator& estimator,
                                                           const TrainSpec& train_spec,
                                                           const EvalSpec& eval_spec);

}  // namespace muster::inline v0_1
