// The rules by which a run is started again after a failure, for one machine and for several: which
// exit codes ask for it, how often it may happen, and how long to wait before. Pure: `now` is
// seconds on any clock that only moves forward. Thread safety: none, the owner locks.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace muster::inline v0_1::plan {

// Whether the same command may succeed after this exit code: a task was killed (128 + signal), was
// stopped (130, 143), or lost a peer or a resource (138). Other codes, such as 255 for exit(-1),
// name a failure that will repeat.
constexpr bool asks_for_restart(int exit_code) {
  constexpr int kBase = 128, kSignals = 64;  // as shells number the ends by signals of Linux
  return exit_code > kBase && exit_code <= kBase + kSignals;
}

// How often a run is started again.
struct RestartRules {
  int restarts = 0;           // at most so many within `window`
  double window = 3600;       // seconds
  double first_pause = 1;     // seconds before the second restart within the window
  double longest_pause = 60;  // seconds; each further pause is twice the one before, up to this
  double calm = 30;           // a start that lasts so many seconds makes the next pause 0 again
  uint64_t seed = 0;          // of the jitter
};

// Counts the restarts of one run, or of one task of it.
class RestartBudget {
 public:
  explicit RestartBudget(RestartRules rules) : rules_(rules) {}

  // Takes a restart. Returns how many seconds to wait before it, or nothing when all restarts of
  // the window are used up. The first restart waits 0 s, and so does each one whose start before it
  // lasted `calm` seconds: the pauses are for a run that fails as soon as it starts. The n-th
  // restart after such a one waits first_pause * 2^(n-1), at most longest_pause, times a jitter in
  // [0.5, 1.5) that keeps many runs that failed together from starting together.
  std::optional<double> take(double now);
  // How many restarts were taken within the window that ends now.
  int used(double now) const;
  const RestartRules& rules() const { return rules_; }

 private:
  RestartRules rules_;
  std::deque<double> taken_;  // when, the earliest first
  uint64_t all_ = 0;          // restarts since the beginning
  int soon_ = 0;              // restarts since the last one that waited for nothing
  double started_ = 0;        // when the last pause ended
};

}  // namespace muster::inline v0_1::plan
