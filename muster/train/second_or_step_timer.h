// Tells when something is due that is repeated after a number of steps or after a time.
// Thread safety: belongs to one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/export.h"

namespace muster::inline v0_1 {

// Steps or time. Both unset: the default of its owner.
struct Every {
  std::optional<int64_t> steps = std::nullopt;  // at least 1
  std::optional<Seconds> time = std::nullopt;   // more than 0
  bool unset() const { return !steps && !time; }
  // Returns this, or `otherwise` if both fields are unset.
  Every or_else(const Every& otherwise) const { return unset() ? otherwise : *this; }
};

// Returns the clock of an option; nullptr means the system's.
inline Clock& clock_or_system(Clock* clock) { return clock != nullptr ? *clock : system_clock(); }

// Due at the first step it is asked about, and then when this many steps, or this much time, have
// passed since it was last due, as in tf.estimator. By time, it may be due on one worker and not on
// another.
class MUSTER_EXPORT SecondOrStepTimer {
 public:
  // `owner` is the name in errors: "hooks::logging_tensor". Throws InvalidArgument when both fields
  // are set, none is, or one is out of range.
  SecondOrStepTimer(Every every, const std::string& owner, Clock& clock);

  // Call it for every step, in order; it is never true twice for one step.
  bool due(int64_t step);
  // Starts again, for another run.
  void reset();

 private:
  const Every every_;
  Clock& clock_;
  std::optional<int64_t> last_step_;
  TimePoint last_time_;
};

}  // namespace muster::inline v0_1
