#include "muster/train/second_or_step_timer.h"

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::inline v0_1 {

SecondOrStepTimer::SecondOrStepTimer(Every every, const std::string& owner, Clock& clock)
    : every_(every), clock_(clock) {
  if (every.steps && every.time) {
    throw invalid_argument(fmt::format("{} got both every.steps ({}) and every.time ({:g} s)",
                                       owner, *every.steps, every.time->count()),
                           "set one of the two");
  }
  if (!every.steps && !every.time) {
    throw invalid_argument(owner + " got neither every.steps nor every.time", "set one of the two");
  }
  if (every.steps && *every.steps < 1) {
    throw invalid_argument(
        fmt::format("{} got every.steps = {}; it must be 1 or more", owner, *every.steps));
  }
  if (every.time && !(every.time->count() > 0)) {
    throw invalid_argument(fmt::format("{} got every.time = {:g} s; it must be more than 0", owner,
                                       every.time->count()));
  }
}

bool SecondOrStepTimer::due(int64_t step) {
  if (last_step_) {
    if (step == *last_step_) return false;
    // A step before the last one: the run was rolled back, and steps count from there.
    if (step < *last_step_) last_step_ = step;
    if (every_.steps && step < *last_step_ + *every_.steps) return false;
    if (every_.time && clock_.now() - last_time_ < *every_.time) return false;
  }
  last_step_ = step;
  last_time_ = clock_.now();
  return true;
}

void SecondOrStepTimer::reset() { last_step_.reset(); }

}  // namespace muster::inline v0_1
