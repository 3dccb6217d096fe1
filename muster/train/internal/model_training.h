// The steps of a model function: batches go in, updates and measurements come out. Thread safety:
// belongs to the replica's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/distribute/replica_input.h"
#include "muster/distribute/step.h"
#include "muster/formats/graph_def.h"
#include "muster/formats/summary_value.h"
#include "muster/tensor/device_copier.h"
#include "muster/train/engine.h"
#include "muster/train/estimator_spec.h"
#include "muster/train/input_fn.h"
#include "muster/train/internal/non_finite_steps.h"
#include "muster/train/internal/step_metrics.h"
#include "muster/train/model_context.h"
#include "muster/train/own_training.h"
#include "muster/train/pace.h"
#include "muster/train/step_summaries.h"
#include "muster/train/step_timer.h"
#include "muster/train/step_trace.h"
#include "muster/train/train_plan.h"
#include "muster/train/trainer.h"

namespace muster::inline v0_1::internal {

class ModelTraining {
 public:
  // All outlive it.
  ModelTraining(const ModelFn& model_fn, const TrainerOptions& options, Engine& engine, Pace& pace,
                StepTrace& trace);

  // Builds the model on this batch, for the engine. Returns the model function's spec, without its
  // training part.
  EstimatorSpec build(const Element& element);
  // The layers of its models, on the chief where summaries are written.
  const std::optional<formats::GraphDef>& graph() const { return graph_; }

  // Before a step: whether it is measured is known then.
  void begin_step();
  // Makes the step. `wishes` returns StepInput::stop, save and profile_steps, and is called with
  // every batch. A step that is not finite updates nothing, according to `non_finite`.
  distribute::StepResult make(distribute::ReplicaInput& input, NonFiniteSteps& non_finite,
                              const std::function<distribute::StepInput()>& wishes);

  // --- after a step; all replicas call together --- Its measurements; nothing if they were not
  // requested. The next step is measured by itself.
  std::optional<std::map<std::string, double>> metrics();
  // Its summaries where they are due, else nullptr; they live until the next call.
  const std::vector<formats::SummaryValue>* summaries();

 private:
  // One batch of a step; the last one, or where the data ends, makes the update. It releases the
  // batch: the next one gets the same memory, still in the cache.
  distribute::StepResult make_batch(distribute::ReplicaInput& input,
                                    const std::function<distribute::StepInput()>& wishes);

  const ModelFn& model_fn_;
  const TrainerOptions& options_;
  Engine& engine_;
  distribute::Replica& replica_;
  Pace& pace_;
  StepTrace& trace_;
  ModelContext context_;
  TrainPlan plan_;            // the optimizers of all phases
  OwnTraining own_training_;  // not asked by a lone replica, whose own training concerns no other
  StepSummaries summaries_;
  const DeviceCopier copy_;
  std::optional<formats::GraphDef> graph_;
  StepTimer metrics_due_;
  bool measured_ = false;  // metrics of the step under way are wanted
  StepMetrics metrics_;    // of the last step that was measured
  std::vector<formats::SummaryValue> summaries_of_run_;
};

}  // namespace muster::inline v0_1::internal
