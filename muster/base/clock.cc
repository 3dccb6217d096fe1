#include "muster/base/clock.h"

#include <algorithm>
#include <cmath>
#include <thread>

namespace muster::inline v0_1 {
namespace {

class SystemClock : public Clock {
 public:
  TimePoint now() override { return std::chrono::steady_clock::now(); }
  double wall_seconds() override {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
  void sleep_for(Duration duration) override { std::this_thread::sleep_for(duration); }
  bool wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                  TimePoint deadline, const std::function<bool()>& done) override {
    return changed.wait_until(lock, deadline, done);
  }
};

// A wait on a ManualClock looks this often whether it was advanced. Polling keeps advance() free of
// locks that the waiting code holds.
constexpr std::chrono::microseconds kPoll{200};

}  // namespace

Duration from_seconds(double seconds) {
  // A limit that never comes, such as an infinite one: a deadline must not overflow with it.
  constexpr double kMost = 100 * 365.25 * 24 * 3600;
  return Duration(static_cast<int64_t>(std::llround(std::clamp(seconds, -kMost, kMost) * 1e9)));
}

bool Clock::wait_for(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                     Duration timeout, const std::function<bool()>& done) {
  return wait_until(lock, changed, now() + timeout, done);
}

Clock& system_clock() {
  static SystemClock* const instance = new SystemClock();
  return *instance;
}

TimePoint ManualClock::now() { return TimePoint(Duration(elapsed_.load())); }

double ManualClock::wall_seconds() {
  return options_.wall_seconds + to_seconds(Duration(elapsed_.load()));
}

void ManualClock::sleep_for(Duration duration) {
  if (options_.sleep_advances) return advance(duration);
  const TimePoint end = now() + duration;
  sleepers_.fetch_add(1);
  while (now() < end) std::this_thread::sleep_for(kPoll);
  sleepers_.fetch_sub(1);
}

bool ManualClock::wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                             TimePoint deadline, const std::function<bool()>& done) {
  if (done()) return true;
  if (options_.sleep_advances) {
    if (now() < deadline) advance(deadline - now());
    return done();
  }
  sleepers_.fetch_add(1);
  bool held = false;
  while (!(held = done()) && now() < deadline) changed.wait_for(lock, kPoll);
  sleepers_.fetch_sub(1);
  return held || done();
}

}  // namespace muster::inline v0_1
