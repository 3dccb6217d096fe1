// Training steps that a chief schedules on workers, whose weights are on parameter servers: what a
// fit() asks for. muster/calls makes them, and says so when the program starts. Thread safety:
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
#include "muster/train/checkpoint_writer.h"

namespace muster::inline v0_1::distribute {

// The same in all tasks.
struct ScheduledStepsOptions {
  uint64_t seed = 0;  // of initial values, shuffles and what layers draw
  // Where the chief saves one checkpoint, and continues from; empty: nowhere.
  std::string model_dir{};
  // What the run begins with where neither servers nor model_dir have more. The chief's counts.
  std::optional<Checkpoint> initial_state{};
  // On the chief: what a checkpoint holds in addition to its weights, asked for with each save.
  std::function<std::map<std::string, std::string>()> notes{};
  // On the chief: called at each save. What it returns, if anything, writes what belongs next to
  // the checkpoint, on the thread that writes that.
  std::function<BeforeSave()> beside{};
  // Where TF_CONFIG is read from; unset: the process's own environment.
  std::optional<Environment> environment{};
  ReduceOp loss_reduction = ReduceOp::kMean;
};

class ScheduledSteps {
 public:
  virtual ~ScheduledSteps() = default;

  // A worker makes steps, a server holds weights, both until the chief is through; then true. On
  // the chief false, and the run has begun or goes on; true where this job's run has ended already.
  virtual bool serve() = 0;

  // --- on the chief, after serve() ---
  virtual int num_workers() const = 0;
  // Has a worker make one more step. Throws the error of an earlier one, once.
  virtual void schedule() = 0;
  // Waits for the step that was scheduled first among those not fetched yet. Gives what the
  // function gave, and the loss of the step with all that layers and regularizers add to it, as
  // a float64 scalar. Where this task was told to stop, it saves and throws Cancelled.
  virtual std::vector<Tensor> fetch() = 0;
  // Updates so far.
  virtual int64_t step() = 0;
  // All variables and slots after one and the same update, and the step.
  virtual Checkpoint state() = 0;
  // ScheduledStepsOptions::notes of the checkpoint that this run continues from; empty without one.
  virtual const std::map<std::string, std::string>& restored_notes() const = 0;
  // Whether it has saved; so many saves in a row may fail. `asynchronous`: a thread may write the
  // checkpoint, unless it is the first; then nothing.
  virtual std::optional<bool> save(int64_t max_failed_saves, bool asynchronous) = 0;
  // Waits for a save that a thread writes, and returns whether the last save has succeeded. Throws
  // its error.
  virtual bool settle_save() = 0;
  // The same, after an error: the log has that of the save.
  virtual bool await_save() noexcept = 0;
};

// What a worker does in a step: calls minimize() once, and gives what it measured.
using StepFunction = std::function<std::vector<Tensor>(const Batch& batch)>;
using MakeScheduledSteps = std::unique_ptr<ScheduledSteps> (*)(StrategyPtr strategy,
                                                               StepFunction step,
                                                               const Dataset& data,
                                                               ScheduledStepsOptions options);

// From now on make_scheduled_steps() gives what `make` returns. The part that has servers calls it
// when the program starts.
MUSTER_PART_EXPORT void register_scheduled_steps(MakeScheduledSteps make);

// Makes them in each task, of a strategy whose weights are on servers; each worker reads its part
// of `data`, again and again. Throws InvalidArgument where the program does not link that part.
MUSTER_PART_EXPORT std::unique_ptr<ScheduledSteps> make_scheduled_steps(
    StrategyPtr strategy, StepFunction step, const Dataset& data, ScheduledStepsOptions options);

}  // namespace muster::inline v0_1::distribute
