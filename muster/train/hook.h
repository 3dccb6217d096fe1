// A Hook observes a run, and may ask it to stop. Thread safety: called from one thread of the run.
// An error thrown by a hook ends the run, on all workers.
//
// A training run calls its hooks in this order, and in each call one hook after another:
//
//   begin                     once, after the restore
//   [before_save, after_save] for the checkpoint a new run begins with
//   before_step               for each step, then the step itself
//   after_step                unless the step is skipped, by RunConfig::non_finite
//   [before_save, after_save] when a save is due: after after_step() of all hooks
//   [after_evaluate]          for each evaluation of the saved checkpoint
//   [after_pause]             after both
//   [after_profile]           after the steps that a hook asked to record
//   end or on_error           once
//
// With RunConfig::asynchronous_saves, the default, a thread writes most checkpoints while the run
// makes steps. after_save() is then called when the checkpoint is written: before an evaluation of
// it, otherwise after a later after_step(), at the latest before the next before_save() and before
// end(). after_pause() follows before_save(), or the evaluation. Where a hook ends the run at a
// save, it should do so in before_save(): then the run ends with that step, however long the write
// takes.
//
// A loss that is not finite is noticed before after_step() and before a save. After a roll back the
// steps of before_step() continue from the step of the saved checkpoint.
//
// A hook whose begin() returned gets exactly one of end() and on_error(). end() is called when the
// run ends cleanly: its steps are done, its input ended, or a hook asked it to stop. on_error() is
// called in all other cases, in the reverse order of begin(): also when the begin(), end() or any
// other call of another hook threw, and when a signal stopped the run, after the save. Close in
// both what begin() opened.
//
// The order of a task's hooks, on the chief: EstimatorSpec::training_chief_hooks, summaries and
// progress lines, hooks of TrainSpec or TrainOptions, EstimatorSpec::training_hooks. Other workers
// have only the last two, and a progress line of their own.
//
// In evaluate() and predict() a hook gets begin(), before_step() and after_step() of each batch,
// and end() or on_error(); an evaluation calls after_evaluate() before end().
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/tensor/mode.h"

namespace muster::inline v0_1::formats {
struct GraphDef;
struct SummaryValue;
struct Timeline;
}  // namespace muster::inline v0_1::formats

namespace muster::inline v0_1 {

class Error;
struct Checkpoint;

// How a hook controls its run. Copies control the same run; requests after end() have no effect.
class MUSTER_EXPORT RunControl {
 public:
  // Without a run: for tests of hooks.
  RunControl() : requests_(std::make_shared<Requests>()) {}

  // Ends the run. It may be called anywhere in a hook. In begin(): ends before the first step. In
  // before_step(): after that step, on all workers. Later: after the current step, or, with several
  // workers, after the next one, on all of them. The run ends as cleanly as at max_steps. An
  // evaluation and predictions end after the batch; an evaluation on several replicas cannot be
  // ended, and throws InvalidArgument.
  void request_stop() const { requests_->stop = true; }
  // Whether a hook of this task has called request_stop().
  bool stop_requested() const { return requests_->stop; }
  // Records the `steps` steps after the next one on all replicas; after_profile() then gets the
  // recording. Call it in before_step(), in training on the chief; elsewhere it has no effect. It
  // is also ignored during a recording, except on its last step. The largest of several requests
  // counts.
  void request_profile(int64_t steps) const {
    requests_->profile_steps = std::max(requests_->profile_steps, steps);
  }

 private:
  friend class HookList;
  struct Requests {
    bool stop = false;
    int64_t profile_steps = 0;
  };
  std::shared_ptr<Requests> requests_;
};

// What is known when a run begins.
struct RunInfo {
  int64_t start_step = 0;  // in evaluation and prediction: the step of the weights
  int64_t last_step = -1;  // when max_steps or the data will end the run; -1: unknown
  int num_replicas = 1;
  bool is_chief = true;
  std::string model_dir{};
  // The layers of the models of ModelContext::model(), if summaries are written; else nullptr.
  const formats::GraphDef* graph = nullptr;
  Mode mode = Mode::kTrain;
  // Ends the run or records steps; the hook may keep a copy.
  RunControl control{};
  // In training: returns a copy of what this replica would save now. Call it only inside a call of
  // the hook.
  std::function<Checkpoint()> state{};
};

// What is known after a step.
struct StepInfo {
  int64_t global_step = 0;   // after the update; in evaluation and prediction that of begin()
  double loss = 0;           // of this step over all replicas; 0 in prediction
  int64_t rows = 0;          // examples of this step over all replicas
  Seconds reduction_time{};  // how long this task waited for gradients of other tasks
  // EstimatorSpec::train_metrics of this step over all replicas, and "learning_rate" if the
  // optimizer has a schedule ("<optimizer>/learning_rate" with several optimizers); set in the
  // first step and then every log_step_count_steps.
  std::optional<std::map<std::string, double>> metrics{};
  // The summaries of ModelContext::summary() in this step, over all replicas; set in the first step
  // and then every save_summary_steps, else nullptr.
  const std::vector<formats::SummaryValue>* summaries = nullptr;
  // As in RunInfo, for hooks that do not keep a copy.
  RunControl control{};
  // Steps skipped in this run so far, by RunConfig::non_finite; a roll back also resets
  // global_step.
  int64_t skipped_steps = 0;
  int64_t roll_backs = 0;
};

// Override the calls you need; the defaults do nothing. Add it to the `hooks` of a TrainSpec,
// TrainOptions, EvaluateOptions or PredictOptions, or to an EstimatorSpec.
class MUSTER_EXPORT Hook {
 public:
  virtual ~Hook() = default;
  // Called once, before the first step, after the state is restored.
  virtual void begin(const RunInfo& /*info*/) {}
  // Called before every step; `global_step` is the step's number after the update. If the input
  // then ends, no after_step() follows.
  virtual void before_step(int64_t /*global_step*/) {}
  // Called after every step, on every worker that has the hook.
  virtual void after_step(const StepInfo& /*info*/) {}
  // Called before a checkpoint is copied or written, at its step. Only on the chief.
  virtual void before_save(int64_t /*global_step*/) {}
  // Called after the checkpoint of step `global_step` was written, between two steps. Only on the
  // chief. With asynchronous saves the run may have made further steps.
  virtual void after_save(int64_t /*global_step*/, const std::string& /*prefix*/) {}
  // Called after an evaluation during training, with its step and the name of its EvalSpec or
  // EvaluateOptions. `results` are those of Estimator::evaluate(). Only on the chief.
  virtual void after_evaluate(int64_t /*global_step*/, const std::string& /*name*/,
                              const std::map<std::string, double>& /*results*/) {}
  // Called after a save and its evaluation, with the time for which training paused.
  virtual void after_pause(Seconds /*time*/) {}
  // Called with the recording of all replicas of the steps that RunControl::request_profile() asked
  // for, up to `global_step`; also when the run ended before all of them were made. Only on the
  // chief.
  virtual void after_profile(int64_t /*global_step*/, const formats::Timeline& /*timeline*/) {}
  // Called at a clean end only: steps done, end of input, or stopped on request.
  virtual void end(int64_t /*global_step*/) {}
  // Called instead of end() when the run ends with `error`. An exception thrown here is logged and
  // otherwise ignored.
  virtual void on_error(const Error& /*error*/) {}
};

// Throws InvalidArgument if one of `hooks` is empty; `field` names the list: "TrainOptions.hooks".
MUSTER_EXPORT void check_hooks(const std::vector<std::shared_ptr<Hook>>& hooks, const char* field);

}  // namespace muster::inline v0_1
