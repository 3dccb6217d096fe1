// Time as an argument, so that tests can move it by hand.
// Thread safety: clocks may be shared by many threads.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

#include "muster/base/export.h"

namespace muster::inline v0_1 {

// A length of time, inside Muster.
using Duration = std::chrono::nanoseconds;
// A length of time in options and results. It takes std::chrono's 30s, 500ms and 1h, and
// Seconds(0.5) is half a second.
using Seconds = std::chrono::duration<double>;
// A point on a clock that only moves forward and has no relation to the date.
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

// Returns the duration in seconds.
inline double to_seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}
// Returns the duration of `seconds` seconds, rounded to the nanosecond.
MUSTER_EXPORT Duration from_seconds(double seconds);
inline Duration from_seconds(Seconds seconds) { return from_seconds(seconds.count()); }

class MUSTER_EXPORT Clock {
 public:
  virtual ~Clock() = default;
  // Returns the time now; it never goes back.
  virtual TimePoint now() = 0;
  // Returns Unix time in seconds; it may jump when the machine's date is set.
  virtual double wall_seconds() = 0;
  // Blocks the calling thread for this long.
  virtual void sleep_for(Duration duration) = 0;
  // Waits on `changed` until `done()` holds or until this clock reaches `deadline`. `lock` must be
  // held, as std::condition_variable requires. Returns done().
  virtual bool wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                          TimePoint deadline, const std::function<bool()>& done) = 0;
  // Calls wait_until() with the deadline `timeout` from now.
  bool wait_for(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                Duration timeout, const std::function<bool()>& done);
};

// The machine's clock.
MUSTER_EXPORT Clock& system_clock();

// A clock that moves only when a test moves it. advance() moves it. With `sleep_advances`, for
// tests of one thread, a thread that sleeps or waits moves the clock to the end of its wait at
// once.
class MUSTER_EXPORT ManualClock : public Clock {
 public:
  // Where the clock begins and how it moves.
  struct Options {
    double wall_seconds = 1'700'000'000;  // Unix time at the start
    bool sleep_advances = false;
  };
  ManualClock() : ManualClock(Options()) {}
  explicit ManualClock(Options options) : options_(options) {}

  // Moves the clock forward and wakes the threads that wait for the new time.
  void advance(Duration duration) { elapsed_.fetch_add(duration.count()); }
  // Returns how many threads sleep or wait on this clock now. A test can advance the clock once all
  // of its threads wait.
  int sleepers() const { return sleepers_.load(); }

  TimePoint now() override;
  double wall_seconds() override;
  void sleep_for(Duration duration) override;
  bool wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                  TimePoint deadline, const std::function<bool()>& done) override;

 private:
  const Options options_;
  std::atomic<int64_t> elapsed_{0};
  std::atomic<int> sleepers_{0};
};

}  // namespace muster::inline v0_1
