// Hooks that end a run when its evaluations say so. Thread safety: as Hook.
//
//   const auto patient = hooks::stop_if_no_decrease("loss", /*max_steps_without_decrease=*/500);
//   train_and_evaluate(estimator, {.input_fn = input, .max_steps = 10000, .hooks = {patient}},
//   ...);
//
// Give them to all workers: the chief decides, and all end with the same step. With one worker that
// is the step at hand, with several the next one. They decide when an evaluation was made in this
// run (Hook::after_evaluate), and look at the events of eval_dir as well, for evaluations that
// another task makes. Nothing of it is in a checkpoint: a run that continues decides before its
// first step, from the evaluations of steps up to the one it continues at, and makes no step when
// the reason to stop still holds.
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
  Every every = {};        // how often to ask; a minute when unset
  Clock* clock = nullptr;  // nullptr: the system's
};
// Ends the run when `should_stop` says so. It is asked on the chief: before the first step, and
// then as often as `every` says. Throws InvalidArgument for an empty function and a bad `every`.
MUSTER_EXPORT std::shared_ptr<Hook> make_early_stopping(std::function<bool()> should_stop,
                                                        const EarlyStoppingOptions& options = {});

// Options of the functions below.
struct StopIfOptions {
  std::string eval_dir = {};  // Estimator::eval_dir(name); empty: that without a name
  int64_t min_steps = 0;      // evaluations of earlier steps do not count; 0 or more
  Every every = {};           // how often events are looked at; a minute when unset
  Clock* clock = nullptr;     // nullptr: the system's
  FileSystem* fs = nullptr;   // nullptr: that of the path
};
// All throw InvalidArgument for an empty metric, min_steps below 0, a bad `every`, and a number
// below 1 where steps are meant; the hook throws it when evaluations have no such metric.

// Ends the run when the metric of an evaluation is above (below) `threshold`.
MUSTER_EXPORT std::shared_ptr<Hook> stop_if_higher(const std::string& metric, double threshold,
                                                   const StopIfOptions& options = {});
MUSTER_EXPORT std::shared_ptr<Hook> stop_if_lower(const std::string& metric, double threshold,
                                                  const StopIfOptions& options = {});
// Ends the run when the best value of the metric, the highest (lowest) of all, is so many steps
// older than an evaluation behind it.
MUSTER_EXPORT std::shared_ptr<Hook> stop_if_no_increase(const std::string& metric,
                                                        int64_t max_steps_without_increase,
                                                        const StopIfOptions& options = {});
MUSTER_EXPORT std::shared_ptr<Hook> stop_if_no_decrease(const std::string& metric,
                                                        int64_t max_steps_without_decrease,
                                                        const StopIfOptions& options = {});

}  // namespace muster::inline v0_1::hooks
