// Muster's hooks, except early stopping (early_stopping.h). Each function makes one hook, which you
// use as hook.h says: `.hooks = {hooks::stop_at_step({.last_step = 1000})}`. Thread safety: as
// Hook. A hook serves one run at a time, and may serve several runs in turn.
//
// Some hooks of tf.estimator are settings of RunConfig, so that there is one way: checkpoints
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

// Options of stop_at_step(); set exactly one, to 1 or more.
struct StopAtStepOptions {
  std::optional<int64_t> num_steps = std::nullopt;  // steps from where the run starts
  std::optional<int64_t> last_step = std::nullopt;  // the global step at which to end
};
// Ends the run at a step, the same on any number of workers, if all workers or one have it. Throws
// InvalidArgument unless exactly one option is set, to 1 or more.
MUSTER_EXPORT std::shared_ptr<Hook> stop_at_step(const StopAtStepOptions& options);

// Ends the run when a checkpoint of `last_step` or later is due: the last step is one at which
// RunConfig saves, or, with several workers, the step after it. Throws InvalidArgument if it is
// below 1.
MUSTER_EXPORT std::shared_ptr<Hook> stop_at_checkpoint_step(int64_t last_step);

// Options of logging_tensor().
struct LoggingTensorOptions {
  // "loss", "global_step", and names of EstimatorSpec::train_metrics, whose values are those of the
  // last step that RunConfig::log_step_count_steps measured. Empty: loss and all metrics.
  std::vector<std::string> names = {};
  Every every = {};     // unset: 100 steps; with at_end: only at the end
  bool at_end = false;  // also (or only) after the last step
  // Makes the line from the values by name; unset: "global_step = 101, loss = 0.3121 (2.041 s)".
  std::function<std::string(const std::map<std::string, double>& values)> formatter = {};
  Clock* clock = nullptr;  // nullptr: the system's
};
// Logs values by name. Throws InvalidArgument for an invalid `every`; the hook throws it for a name
// that the first measured step does not have, with the names it has.
MUSTER_EXPORT std::shared_ptr<Hook> logging_tensor(const LoggingTensorOptions& options);

// Options of step_counter().
struct StepCounterOptions {
  Every every = {};             // unset: 100 steps
  std::string output_dir = {};  // where to write "global_step/sec" for TensorBoard; empty: none
  Clock* clock = nullptr;       // nullptr: the system's
  FileSystem* fs = nullptr;     // nullptr: that of the path
};
// Logs the steps per second, without the time of saves and evaluations. Estimators write
// "global_step/sec" themselves; use this hook for another interval or directory, and for evaluation
// and prediction, where it counts batches.
MUSTER_EXPORT std::shared_ptr<Hook> step_counter(const StepCounterOptions& options);

// Calls `fn` with the last step when the run ends cleanly. Throws InvalidArgument for an empty
// `fn`.
MUSTER_EXPORT std::shared_ptr<Hook> final_ops(std::function<void(int64_t global_step)> fn);

// Options of global_step_waiter().
struct GlobalStepWaiterOptions {
  std::string model_dir{};      // of the run to wait for
  int64_t wait_until_step = 0;  // the step that its latest checkpoint must reach
  Seconds poll_interval{0.5};   // more than 0
  Seconds timeout{7200};        // then it throws Timeout; more than 0
  Clock* clock = nullptr;       // nullptr: the system's
  FileSystem* fs = nullptr;     // nullptr: that of the path
};
// Waits, before the first step, for another run to reach a step. All workers of this run wait with
// the worker that has the hook. Ends with Cancelled when this task is asked to stop. Throws
// InvalidArgument for an empty model_dir and numbers out of range.
MUSTER_EXPORT std::shared_ptr<Hook> global_step_waiter(const GlobalStepWaiterOptions& options);

// Options of profiler().
struct ProfilerOptions {
  Every every = {};             // how often; set one of its fields
  int64_t steps_in_a_row = 1;   // steps recorded each time, for one file; 1 or more
  std::string output_dir = {};  // empty: the model_dir
  Clock* clock = nullptr;       // nullptr: the system's
  FileSystem* fs = nullptr;     // nullptr: that of the path
};
// Writes <output_dir>/timeline-<step>.json for the second step of the run, and then as often as
// `every` says: what each replica of each task did in it, on one time line, for chrome://tracing
// and Perfetto (ui.perfetto.dev). Rows "step": input, forward, backward, reduction (what backward
// did not hide), update, hooks, saving, evaluating. Rows "reduction": each bucket of gradients,
// with its bytes and tensors. A file of several steps has the number of the last one. Give the hook
// to all workers: the chief's decides and writes. Steps that are not recorded cost nothing. Throws
// InvalidArgument for an invalid `every` or steps_in_a_row, and in begin() of an evaluation or
// prediction. An error of writing ends the run.
MUSTER_EXPORT std::shared_ptr<Hook> profiler(const ProfilerOptions& options);

}  // namespace muster::inline v0_1::hooks
