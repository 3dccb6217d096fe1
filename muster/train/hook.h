// A Hook is told what a training run does, and may ask it to stop.
// Thread safety: called from the training thread. What a hook throws ends the run, on all workers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace muster::inline v0_1::formats {
struct GraphDef;
struct SummaryValue;
}  // namespace muster::inline v0_1::formats

namespace muster::inline v0_1 {

// What is known when a run begins.
struct RunInfo {
  int64_t start_step = 0;
  int64_t last_step = -1;  // where max_steps or the data will end the run; -1: unknown
  int num_replicas = 1;
  bool is_chief = true;
  std::string model_dir;
  // The layers of the models of ModelContext::model(), where summaries are written; else nullptr.
  const formats::GraphDef* graph = nullptr;
};

// What is known after a step.
struct StepInfo {
  int64_t global_step = 0;       // after the update
  double loss = 0;               // of this step over all replicas
  int64_t rows = 0;              // examples of this step over all replicas
  double reduction_seconds = 0;  // this task waited for gradients of the others
  // EstimatorSpec::train_metrics of this step over all replicas, and "learning_rate" where the
  // optimizer has a schedule ("<optimizer>/learning_rate" where there are several optimizers);
  // nullptr but in the first step and then every log_step_count_steps.
  const std::map<std::string, double>* metrics = nullptr;
  // What the model function gave to ModelContext::summary() in this step, over all replicas;
  // nullptr but in the first step and then every save_summary_steps.
  const std::vector<formats::SummaryValue>* summaries = nullptr;
  // Set it to end the run after this step; with several workers after the next one, on all of them.
  bool* stop = nullptr;
};

// Override what you want to hear; the defaults do nothing. Goes into the `hooks` of a TrainSpec.
class Hook {
 public:
  virtual ~Hook() = default;
  // Once, before the first step, when the state is restored.
  virtual void begin(const RunInfo& /*info*/) {}
  // After every step, on every worker the hook is given to.
  virtual void after_step(const StepInfo& /*info*/) {}
  // A checkpoint was written. Only on the chief.
  virtual void after_save(int64_t /*global_step*/, const std::string& /*prefix*/) {}
  // A save, and the evaluation behind it, is over: so many seconds were no training.
  virtual void after_pause(double /*seconds*/) {}
  // Only on a clean end: steps done, end of input, or stopped on request.
  virtual void end(int64_t /*global_step*/) {}
};

}  // namespace muster::inline v0_1
