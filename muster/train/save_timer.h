// When a run saves. Thread safety: belongs to the replica's thread.
#pragma once

#include <cstdint>
#include <optional>

#include "muster/base/clock.h"

namespace muster::inline v0_1 {

// When to save. By steps, every task knows; by seconds, the chief says so in the step before.
class SaveTimer {
 public:
  // At most one of `steps` and `secs`; none: never.
  SaveTimer(std::optional<int64_t> steps, std::optional<double> secs, Clock& clock,
            int64_t start_step)
      : steps_(steps), secs_(secs), clock_(clock) {
    saved(start_step);
  }
  bool enabled() const { return steps_ || secs_; }
  bool wanted_by_clock(bool chief) const {
    return chief && secs_ && to_seconds(clock_.now() - saved_at_) >= *secs_;
  }
  bool due(int64_t step, bool agreed) const {
    return (steps_ && step >= saved_step_ + *steps_) || (secs_ && agreed);
  }
  void saved(int64_t step) {
    saved_step_ = step;
    saved_at_ = clock_.now();
  }
  int64_t saved_step() const { return saved_step_; }

 private:
  std::optional<int64_t> steps_;
  std::optional<double> secs_;
  Clock& clock_;
  int64_t saved_step_ = -1;
  TimePoint saved_at_;
};

}  // namespace muster::inline v0_1
