// A rank sleeps on a doorbell while it waits for others; it lies in memory that all of them reach.
// No LibTorch here. Thread safety: its owner sleeps, on one thread at a time; any thread rings.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace muster::inline v0_1::internal {

// Begins as zeroed memory. Works between processes, unlike std::atomic::wait().
struct Doorbell {
  std::atomic<uint32_t> rings;
  std::atomic<uint32_t> sleeping;

  // Wakes the owner.
  void ring();
  // Whether the owner sleeps. The caller orders its earlier stores by a sequentially consistent
  // fence: then the owner sees them, or this sees the owner asleep.
  bool has_sleeper() const { return sleeping.load(std::memory_order_acquire) != 0; }

  // Sleeps until another rank rings, or for `timeout` at most; not at all if `ready()` holds.
  template <typename Ready>
  void sleep(std::chrono::milliseconds timeout, Ready ready) {
    const uint32_t heard = rings.load();
    sleeping.store(1, std::memory_order_release);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!ready()) wait_for_ring(heard, timeout);
    sleeping.store(0, std::memory_order_relaxed);
  }

 private:
  void wait_for_ring(uint32_t heard, std::chrono::milliseconds timeout);
};

}  // namespace muster::inline v0_1::internal
