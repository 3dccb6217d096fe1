// Tells a task that does nothing from one that works: by its use of the processor and by what it
// prints. Thread safety: none, the owner locks.
#pragma once

#include <chrono>
#include <deque>
#include <optional>

namespace muster::inline v0_1::launch::internal {

class IdleWatch {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Seconds = std::chrono::duration<double>;

  // The task printed something.
  void note_life(TimePoint now);
  // Takes the processor time that the task has used so far, in seconds; call it about `every` so
  // often. A heartbeat alone, less than a hundredth of a core in the last ten looks, is not work:
  // the kernel counts in hundredths of a second, so that in one look alone a heartbeat may be one.
  // A longer gap counts at most twice that: the observer was paused too, as on a paused machine.
  void look(double seconds, TimePoint now, Seconds every);
  // For how long it has done nothing, as far as looks can tell.
  Seconds idle() const { return idle_; }

 private:
  struct Sample {
    TimePoint time;
    double seconds;
  };
  std::deque<Sample> samples_;  // oldest first
  std::optional<TimePoint> printed_;
  Seconds idle_{0};
};

}  // namespace muster::inline v0_1::launch::internal
