// When something is due that is done every so many steps, or every so often.
// Thread safety: belongs to one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/export.h"

namespace muster::inline v0_1 {

// One of the two. Both unset: what the owner has as its default.
struct Every {
  std::optional<int64_t> steps = std::nullopt;  // at least 1
  std::optional<Seconds> time = std::nullopt;   // more than 0
  bool unset() const { return !steps && !time; }
  // This one, or `otherwise` where it is unset.
  Every or_else(const Every& otherwise) const { return unset() ? otherwise : *this; }
};

// The clock an option gives; nullptr stands for the system's.
inline Clock& clock_or_system(Clock* clock) { return clock != nullptr ? *clock : system_clock(); }

// Due at the first step it is asked of, and then whenever so many steps, or so much time, have
// passed since it was due last, as tf.estimator's. By time, what is due on one worker need not be
// on another.
class MUSTER_EXPORT SecondOrStepTimer {
 public:
  // `owner` is what errors say: "hooks::logging_tensor". Throws InvalidArgument when both are set,
  // none is, or one is out of range.
  SecondOrStepTimer(Every every, const std::string& owner, Clock& clock);

  // Asked of every step, in order; never true twice for one step.
  bool due(int64_t step);
  // Begins anew, as for another run.
  void reset();

 private:
  const Every every_;
  Clock& clock_;
  std::optional<int64_t> last_step_;
  TimePoint last_time_;
};

}  // namespace muster::inline v0_1
