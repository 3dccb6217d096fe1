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
  // Whether it ever saves.
  bool enabled() const { return steps_ || secs_; }
  // Whether the seconds are over; false but on the chief.
  bool wanted_by_clock(bool chief) const {
    return chief && secs_ && to_seconds(clock_.now() - tried_at_) >= *secs_;
  }
  // Whether to save after this step; `agreed`: the chief's clock wanted it.
  bool due(int64_t step, bool agreed) const {
    return (steps_ && step >= tried_step_ + *steps_) || (secs_ && agreed);
  }
  // What was just saved is of this step: the next save counts from here.
  void saved(int64_t step) {
    saved_step_ = step;
    failed(step);
  }
  // What could not be saved is of this step: it is tried again when the next save is due.
  void failed(int64_t step) {
    tried_step_ = step;
    tried_at_ = clock_.now();
  }
  // What was tried at this step, and noted by failed(), has been written since.
  void written(int64_t step) { saved_step_ = step; }
  // The step that was saved last; the first one of the run where none was.
  int64_t saved_step() const { return saved_step_; }

  // Where the next save counts from, for a run that goes on with another timer.
  struct Marks {
    int64_t saved_step = -1;
    int64_t tried_step = -1;              // of the last save, whether it failed or not
    std::optional<TimePoint> tried_at{};  // unset: now
  };
  Marks marks() const { return {saved_step_, tried_step_, tried_at_}; }
  void go_on_from(const Marks& marks) {
    saved_step_ = marks.saved_step;
    tried_step_ = marks.tried_step;
    tried_at_ = marks.tried_at.value_or(clock_.now());
  }

 private:
  std::optional<int64_t> steps_;
  std::optional<double> secs_;
  Clock& clock_;
  int64_t saved_step_ = -1;
  int64_t tried_step_ = -1;  // of the last save, whether it failed or not
  TimePoint tried_at_;
};

}  // namespace muster::inline v0_1
