// Training steps that a chief schedules on workers, whose weights are on parameter servers: fit()
// uses them. muster/calls makes them, and registers itself when the program starts. Thread safety:
// ScheduledSteps belong to the thread that made them; functions may be called from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/environment.h"
#include "muster/base/export.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/data/dataset.h"
#include "muster/distribute/strategy.h"
#include "muster/tensor/batch.h"

namespace muster::inline v0_1::distribute {

// The same in all tasks.
struct ScheduledStepsOptions {
  uint64_t seed = 0;  // of initial values, shuffles and the layers' draws
  // Where the chief saves one checkpoint, and continues from; empty: nowhere.
  std::string model_dir{};
  // The initial state of the run if neither servers nor model_dir have a later one. The chief's
  // counts.
  std::optional<Checkpoint> initial_state{};
  // On the chief: the notes that a checkpoint holds in addition to its weights, called with each
  // save.
  std::function<std::map<std::string, std::string>()> notes{};
  // Where TF_CONFIG is read from; unset: the process's own environment.
  std::optional<Environment> environment{};
  ReduceOp loss_reduction = ReduceOp::kMean;
};

class ScheduledSteps {
 public:
  virtual ~ScheduledSteps() = default;

  // A worker makes steps, a server holds weights, both until the chief is through; then it returns
  // true. On the chief it returns false, and the run has begun or continues; true if this job's run
  // has ended already.
  virtual bool serve() = 0;

  // --- on the chief, after serve() ---
  virtual int num_workers() const = 0;
  // Has a worker make one more step. Throws the error of an earlier one, once.
  virtual void schedule() = 0;
  // Waits for the step that was scheduled first among those not fetched yet. Returns the result of
  // the function, and the loss of the step with all that layers and regularizers add to it, as a
  // float64 scalar. If this task was asked to stop, it saves and throws Cancelled.
  virtual std::vector<Tensor> fetch() = 0;
  // Updates so far.
  virtual int64_t step() = 0;
  // All variables and slots after one and the same update, and the step.
  virtual Checkpoint state() = 0;
  // ScheduledStepsOptions::notes of the checkpoint from which this run continues; empty without
  // one.
  virtual const std::map<std::string, std::string>& restored_notes() const = 0;
  // Returns whether it has saved; up to `max_failed_saves` saves in a row may fail.
  virtual bool save(int64_t max_failed_saves) = 0;
};

// The work of a worker in a step: calls minimize() once, and returns its measurements.
using StepFunction = std::function<std::vector<Tensor>(const Batch& batch)>;
using MakeScheduledSteps = std::unique_ptr<ScheduledSteps> (*)(StrategyPtr strategy,
                                                               StepFunction step,
                                                               const Dataset& data,
                                                               ScheduledStepsOptions options);

// From now on make_scheduled_steps() returns the result of `make`. The servers' part calls it when
// the program starts.
MUSTER_PART_EXPORT void register_scheduled_steps(MakeScheduledSteps make);

// Makes them in each task, for a strategy whose weights are on servers; each worker reads its part
// of `data`, again and again. Throws InvalidArgument if the program does not link that part.
MUSTER_PART_EXPORT std::unique_ptr<ScheduledSteps> make_scheduled_steps(
    StrategyPtr strategy, StepFunction step, const Dataset& data, ScheduledStepsOptions options);

}  // namespace muster::inline v0_1::distribute
