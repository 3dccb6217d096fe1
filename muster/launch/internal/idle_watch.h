// Distinguishes a task that does nothing from one that works: by its use of the processor and by
// its output. Thread safety: none, the owner locks.
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
  // often. A heartbeat alone, less than a hundredth of a core in the last ten looks, is no work:
  // the kernel counts in hundredths of a second, so that in one look alone a heartbeat may be one.
  // A longer gap counts as twice `every` at most: this process stood still too, as on a machine
  // that is paused.
  void look(double seconds, TimePoint now, Seconds every);
  // How long it has done nothing, according to the looks.
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
