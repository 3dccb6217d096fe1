// Events in the order of their times, on one thread. Thread safety: none.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "muster/base/clock.h"
#include "muster/base/random.h"

namespace muster::sim {

class Agenda {
 public:
  // `clock`, if any, outlives it, and moves with it.
  explicit Agenda(RandomKey key, ManualClock* clock = nullptr) : random_(key), clock_(clock) {}

  double now() const { return now_; }
  // Events of the same time come in the order in which they were made.
  void at(double seconds, std::function<void()> event) {
    events_.emplace(std::pair(seconds < now_ ? now_ : seconds, next_++), std::move(event));
  }
  void after(double seconds, std::function<void()> event) { at(now_ + seconds, std::move(event)); }
  // Makes the next one. REQUIRES: there is one.
  void step() {
    auto first = events_.extract(events_.begin());
    if (clock_ != nullptr) clock_->advance(from_seconds(first.key().first - now_));
    now_ = first.key().first;
    first.mapped()();
  }
  bool empty() const { return events_.empty(); }
  // A number below n.
  int draw(int n) { return static_cast<int>(random_.uniform_below(static_cast<uint64_t>(n))); }
  double uniform(double low, double high) { return low + (high - low) * random_.uniform(); }

 private:
  Random random_;
  ManualClock* const clock_;
  double now_ = 0;
  uint64_t next_ = 0;
  std::map<std::pair<double, uint64_t>, std::function<void()>> events_;
};

}  // namespace muster::sim
