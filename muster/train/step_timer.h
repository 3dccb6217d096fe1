// When something is due that is done every n steps: at the first step it is asked of, and whenever
// n have passed since, as in tf.estimator. With n = 100 a run that begins at step 0 reaches it at
// steps 1, 101, 201. Thread safety: belongs to one thread.
#pragma once

#include <cstdint>

namespace muster::inline v0_1 {

class StepTimer {
 public:
  // Below 1 it is never due.
  explicit StepTimer(int64_t every_steps) : every_steps_(every_steps) {}

  // Called for every step, in order. A roll back may take steps back: a step that was due is due
  // again.
  bool due(int64_t step) {
    if (every_steps_ < 1) return false;
    if (step < last_) next_ = last_ - (last_ - step) / every_steps_ * every_steps_;
    if (step < next_) return false;
    last_ = step;
    next_ = step + every_steps_;
    return true;
  }

 private:
  int64_t every_steps_;
  int64_t last_ = 0;
  int64_t next_ = 0;
};

}  // namespace muster::inline v0_1
