// A Hook is told what a run does, and may ask it to stop. Thread safety: called from one thread of
// the run; what a hook throws ends the run, on all workers.
//
// A training run calls its hooks in this order, and in each call one hook after another:
//
//   begin                     once, behind the restore
//   [before_save, after_save] of the checkpoint a new run begins with
//   before_step               for each step, then the step itself
//   after_step                unless the step is left out, by RunConfig::non_finite
//   [before_save, after_save] where a save is due: behind after_step() of all hooks
//   [after_evaluate]          for each evaluation that was made of what was saved
//   [after_pause]             after both
//   [after_profile]           where the steps are over that a hook asked to have recorded
//   end or on_error           once
//
// A loss that is not finite is seen before after_step() and before a save. Behind a roll back the
// steps of before_step() count on from the one that was saved.
//
// A hook whose begin() returned gets exactly one of end() and on_error(). end() comes where the run
// ends cleanly: its steps are done, its input is used up, or a hook asked it to stop. on_error()
// comes in all other cases, in the reverse order of begin(): also where the begin(), end() or any
// other call of another hook threw, and where a signal stopped the run, after it was saved. So what
// begin() opened can be let go in both.
//
// Hooks of a task stand in this order, on the chief: EstimatorSpec::training_chief_hooks, summaries
// and progress lines, those of TrainSpec or TrainOptions, EstimatorSpec::training_hooks. Other
// workers have only the last two, and a line of their own.
//
// In evaluate() and predict() a hook is told begin(), before_step() and after_step() of each batch,
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

// What a hook may ask of its run. Copies ask the same run; requests after end() have no effect.
class MUSTER_EXPORT RunControl {
 public:
  // Of no run: for tests of hooks.
  RunControl() : requests_(std::make_shared<Requests>()) {}

  // Ends the run, from any call of a hook. In begin(): before the first step. In before_step():
  // after that step, on all workers. Later: after the step under way, with several workers after
  // the next one, on all of them. The run ends as cleanly as at max_steps. An evaluation and
  // predictions end after the batch; an evaluation by several replicas cannot be ended, and throws
  // InvalidArgument.
  void request_stop() const { requests_->stop = true; }
  // Whether a hook of this task has asked for that.
  bool stop_requested() const { return requests_->stop; }
  // Call it in before_step(), in training on the chief: the `steps` steps after that one are
  // recorded on all replicas, and after_profile() tells what they did. Elsewhere, and while steps
  // other than the last one are still recorded, it has no effect. Of several requests the largest
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
  int64_t start_step = 0;  // of an evaluation or prediction: that of the weights
  int64_t last_step = -1;  // where max_steps or the data will end the run; -1: unknown
  int num_replicas = 1;
  bool is_chief = true;
  std::string model_dir{};
  // The layers of the models of ModelContext::model(), where summaries are written; else nullptr.
  const formats::GraphDef* graph = nullptr;
  Mode mode = Mode::kTrain;
  // By which the hook ends the run, or has steps recorded; it may keep a copy.
  RunControl control{};
  // In training: a copy of what this replica would save now. Call it where the hook is called.
  std::function<Checkpoint()> state{};
};

// What is known after a step.
struct StepInfo {
  int64_t global_step = 0;   // after the update; in evaluation and prediction that of begin()
  double loss = 0;           // of this step over all replicas; 0 in prediction
  int64_t rows = 0;          // examples of this step over all replicas
  Seconds reduction_time{};  // this task waited for gradients of the others
  // EstimatorSpec::train_metrics of this step over all replicas, and "learning_rate" where the
  // optimizer has a schedule ("<optimizer>/learning_rate" where there are several optimizers); set
  // in the first step and then every log_step_count_steps.
  std::optional<std::map<std::string, double>> metrics{};
  // What the model function gave to ModelContext::summary() in this step, over all replicas;
  // nullptr but in the first step and then every save_summary_steps.
  const std::vector<formats::SummaryValue>* summaries = nullptr;
  // That of RunInfo, for hooks that keep nothing.
  RunControl control{};
  // In this run so far, by RunConfig::non_finite. A roll back takes global_step back as well.
  int64_t skipped_steps = 0;
  int64_t roll_backs = 0;
};

// Override what you want to hear; the defaults do nothing. Goes into the `hooks` of a TrainSpec, of
// TrainOptions, EvaluateOptions or PredictOptions, or into an EstimatorSpec.
class MUSTER_EXPORT Hook {
 public:
  virtual ~Hook() = default;
  // Once, before the first step, when the state is restored.
  virtual void begin(const RunInfo& /*info*/) {}
  // Before every step; `global_step` is the one it will have. Where the input turns out to be used
  // up, no after_step() follows.
  virtual void before_step(int64_t /*global_step*/) {}
  // After every step, on every worker the hook is given to.
  virtual void after_step(const StepInfo& /*info*/) {}
  // A checkpoint is about to be written. Only on the chief.
  virtual void before_save(int64_t /*global_step*/) {}
  // A checkpoint was written. Only on the chief.
  virtual void after_save(int64_t /*global_step*/, const std::string& /*prefix*/) {}
  // An evaluation was made while training went on: of that step, under the name of its EvalSpec or
  // EvaluateOptions. `results` are those of Estimator::evaluate(). Only on the chief.
  virtual void after_evaluate(int64_t /*global_step*/, const std::string& /*name*/,
                              const std::map<std::string, double>& /*results*/) {}
  // A save, and the evaluation behind it, is over: that long was no training.
  virtual void after_pause(Seconds /*time*/) {}
  // What all replicas did in the steps that RunControl::request_profile() asked for, up to
  // `global_step`; also where the run ended before all of them were made. Only on the chief.
  virtual void after_profile(int64_t /*global_step*/, const formats::Timeline& /*timeline*/) {}
  // Only on a clean end: steps done, end of input, or stopped on request.
  virtual void end(int64_t /*global_step*/) {}
  // In place of end(): the run ends with `error`. What is thrown here is logged and goes no
  // further.
  virtual void on_error(const Error& /*error*/) {}
};

// Throws InvalidArgument when one of `hooks` is empty; `field` says whose they are:
// "TrainOptions.hooks".
MUSTER_EXPORT void check_hooks(const std::vector<std::shared_ptr<Hook>>& hooks, const char* field);

}  // namespace muster::inline v0_1
