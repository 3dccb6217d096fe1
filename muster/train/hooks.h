// The hooks that Muster has, besides those of early stopping (early_stopping.h). Each is made by a
// function, and goes where hook.h says: `.hooks = {hooks::stop_at_step({.last_step = 1000})}`.
// Thread safety: as Hook. A hook serves one run at a time, and may serve several in turn.
//
// Some of tf.estimator's are settings of RunConfig, so that there is one way: checkpoints
// (save_checkpoints_steps and _secs; a CheckpointSaverListener is a Hook with before_save() and
// after_save()), summaries (save_summary_steps) and NaN (non_finite).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/train/hook.h"
#include "muster/train/second_or_step_timer.h"

namespace muster::inline v0_1::hooks {

// Options of stop_at_step(); exactly one is set, to 1 or more.
struct StopAtStepOptions {
  std::optional<int64_t> num_steps = std::nullopt;  // so many from where the run starts
  std::optional<int64_t> last_step = std::nullopt;  // the global step to end at
};
// Ends the run at a step, the same on any number of workers, when given to all or to one. Throws
// InvalidArgument unless one of the two is set, and is 1 or more.
MUSTER_EXPORT std::shared_ptr<Hook> stop_at_step(const StopAtStepOptions& options);

// Ends the run when a checkpoint of `last_step` or a later one is saved: the last step is one that
// RunConfig saves at, with several workers the one behind it. Throws InvalidArgument unless it is 1
// or more.
MUSTER_EXPORT std::shared_ptr<Hook> stop_at_checkpoint_step(int64_t last_step);

// Options of logging_tensor().
struct LoggingTensorOptions {
  // "loss", "global_step", and names of EstimatorSpec::train_metrics. Those have the values of the
  // last step that RunConfig::log_step_count_steps measured. Empty: loss and all metrics.
  std::vector<std::string> names = {};
  Every every = {};     // 100 steps when unset; with at_end and `every` unset, at the end alone
  bool at_end = false;  // also (or only) after the last step
  // Makes the line of the values by name; unset: "global_step = 101, loss = 0.3121 (2.041 s)".
  std::function<std::string(const std::map<std::string, double>& values)> formatter = {};
  Clock* clock = nullptr;  // nullptr: the system's
};
// Logs values by name. Throws InvalidArgument for a bad `every`; the hook throws it for a name that
// the first measured step does not have, listing those there are.
MUSTER_EXPORT std::shared_ptr<Hook> logging_tensor(const LoggingTensorOptions& options);

// Options of step_counter().
struct StepCounterOptions {
  Every every = {};             // 100 steps when unset
  std::string output_dir = {};  // where "global_step/sec" goes for TensorBoard; empty: nowhere
  Clock* clock = nullptr;       // nullptr: the system's
  FileSystem* fs = nullptr;     // nullptr: that of the path
};
// Logs how many steps a second were made, without the time of saves and evaluations. Estimators
// write "global_step/sec" by themselves; this one is for another cadence or another place, and for
// evaluation and prediction, where it counts batches.
MUSTER_EXPORT std::shared_ptr<Hook> step_counter(const StepCounterOptions& options);

// Calls `fn` with the last step where the run ends cleanly. Throws InvalidArgument when it is
// empty.
MUSTER_EXPORT std::shared_ptr<Hook> final_ops(std::function<void(int64_t global_step)> fn);

// Options of global_step_waiter().
struct GlobalStepWaiterOptions {
  std::string model_dir{};      // of the run that is waited for
  int64_t wait_until_step = 0;  // its latest checkpoint is of this step or of a later one
  Seconds poll_interval{0.5};   // more than 0
  Seconds timeout{7200};        // then it throws Timeout; more than 0
  Clock* clock = nullptr;       // nullptr: the system's
  FileSystem* fs = nullptr;     // nullptr: that of the path
};
// Waits, before the first step, for another run to come so far. All workers of this run wait with
// the one it is given to. Ends with Cancelled when this task is asked to stop. Throws
// InvalidArgument for an empty model_dir and numbers out of range.
MUSTER_EXPORT std::shared_ptr<Hook> global_step_waiter(const GlobalStepWaiterOptions& options);

// Options of profiler().
struct ProfilerOptions {
  Every every = {};             // how often; one of the two must be set
  int64_t steps_in_a_row = 1;   // recorded each time, for one file; 1 or more
  std::string output_dir = {};  // empty: the model_dir
  Clock* clock = nullptr;       // nullptr: the system's
  FileSystem* fs = nullptr;     // nullptr: that of the path
};
// Writes <output_dir>/timeline-<step>.json for the second step of the run, and then every so often:
// what each replica of each task did in it, on one time line, for chrome://tracing and Perfetto
// (ui.perfetto.dev). Rows "step": input, forward, backward, reduction (what backward did not hide),
// update, hooks, saving, evaluating. Rows "reduction": each bucket of gradients, with its bytes and
// tensors. Where steps are recorded in a row, the file has the number of the last one. Give it to
// all workers: the chief's decides and writes. It costs nothing between. Throws InvalidArgument for
// a bad `every` and steps_in_a_row; in begin() in an evaluation or prediction. What a failing write
// throws ends the run.
MUSTER_EXPORT std::shared_ptr<Hook> profiler(const ProfilerOptions& options);

}  // namespace muster::inline v0_1::hooks
