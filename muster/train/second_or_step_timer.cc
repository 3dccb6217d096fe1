#include "muster/train/second_or_step_timer.h"

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::inline v0_1 {

SecondOrStepTimer::SecondOrStepTimer(Every every, const std::string& owner, Clock& clock)
    : every_(every), clock_(clock) {
  if (every.steps && every.secs) {
    throw invalid_argument(fmt::format("{} got both every.steps ({}) and every.secs ({:g})", owner,
                                       *every.steps, *every.secs),
                           "set one of the two");
  }
  if (!every.steps && !every.secs) {
    throw invalid_argument(owner + " got neither every.steps nor every.secs", "set one of the two");
  }
  if (every.steps && *every.steps < 1) {
    throw invalid_argument(
        fmt::format("{} got every.steps = {}; it must be 1 or more", owner, *every.steps));
  }
  if (every.secs && !(*every.secs > 0)) {
    throw invalid_argument(
        fmt::format("{} got every.secs = {:g}; it must be more than 0", owner, *every.secs));
  }
}

bool SecondOrStepTimer::due(int64_t step) {
  if (last_step_) {
    if (step == *last_step_) return false;
    // A step before the last one: the run was rolled back, and steps count from there.
    if (step < *last_step_) last_step_ = step;
    if (every_.steps && step < *last_step_ + *every_.steps) return false;
    if (every_.secs && to_seconds(clock_.now() - last_time_) < *every_.secs) return false;
  }
  last_step_ = step;
  last_time_ = clock_.now();
  return true;
}

void SecondOrStepTimer::reset() { last_step_.reset(); }

}  // namespace muster::inline v0_1
