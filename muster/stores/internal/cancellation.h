// A flag that ends the waits of other threads. Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "muster/base/clock.h"

namespace muster::inline v0_1::stores::internal {

class Cancellation {
 public:
  void cancel() {
    std::lock_guard lock(mutex_);
    cancelled_.store(true);
    changed_.notify_all();
  }
  bool cancelled() const { return cancelled_.load(); }
  // Waits for `duration` on `clock`, or until cancel(); returns whether it was not cancelled.
  bool sleep(Clock& clock, Duration duration) {
    std::unique_lock lock(mutex_);
    return !clock.wait_for(lock, changed_, duration, [this] { return cancelled_.load(); });
  }

 private:
  std::atomic<bool> cancelled_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace muster::inline v0_1::stores::internal
