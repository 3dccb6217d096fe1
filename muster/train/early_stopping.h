// Hooks that end a run depending on its evaluations. Thread safety: as Hook.
//
//   const auto patient = hooks::stop_if_no_decrease("loss", /*max_steps_without_decrease=*/500);
//   train_and_evaluate(estimator, {.input_fn = input, .max_steps = 10000, .hooks = {patient}},
//   ...);
//
// Give them to all workers: the chief decides, and all end after the same step. With one worker
// that is the current step, with several the next one. They decide after an evaluation of this run
// (Hook::after_evaluate), and also read the events in eval_dir, for evaluations by another task.
// Checkpoints hold nothing of this: a run that continues decides before its first step, from the
// evaluations up to its step, and makes no step if the reason to stop still holds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/train/hook.h"
#include "muster/train/second_or_step_timer.h"

namespace muster::inline v0_1::hooks {

// Options of make_early_stopping().
struct EarlyStoppingOptions {
  Every every = {};        // how often to call it; unset: every minute
  Clock* clock = nullptr;  // nullptr: the system's
};
// Ends the run when `should_stop` returns true. It is called on the chief: before the first step,
// and then as often as `every` says. Throws InvalidArgument for an empty function and an invalid
// `every`.
MUSTER_EXPORT std::shared_ptr<Hook> make_early_stopping(std::function<bool()> should_stop,
                                                        const EarlyStoppingOptions& options = {});

// Options of the functions below.
struct StopIfOptions {
  std::string eval_dir = {};  // Estimator::eval_dir(name); empty: the default evaluation
  int64_t min_steps = 0;      // evaluations of earlier steps do not count; 0 or more
  Every every = {};           // how often to read events; unset: every minute
  Clock* clock = nullptr;     // nullptr: the system's
  FileSystem* fs = nullptr;   // nullptr: that of the path
};
// All throw InvalidArgument for an empty metric, min_steps below 0, an invalid `every`, and a
// number of steps below 1; the hook throws it if evaluations have no such metric.

// Ends the run when the metric of an evaluation is above (below) `threshold`.
MUSTER_EXPORT std::shared_ptr<Hook> stop_if_higher(const std::string& metric, double threshold,
                                                   const StopIfOptions& options = {});
MUSTER_EXPORT std::shared_ptr<Hook> stop_if_lower(const std::string& metric, double threshold,
                                                  const StopIfOptions& options = {});
// Ends the run when the best value so far, the highest (lowest), is this many steps older than a
// later evaluation.
MUSTER_EXPORT std::shared_ptr<Hook> stop_if_no_increase(const std::string& metric,
                                                        int64_t max_steps_without_increase,
                                                        const StopIfOptions& options = {});
MUSTER_EXPORT std::shared_ptr<Hook> stop_if_no_decrease(const std::string& metric,
                                                        int64_t max_steps_without_decrease,
                                                        const StopIfOptions& options = {});

}  // namespace muster::inline v0_1::hooks
