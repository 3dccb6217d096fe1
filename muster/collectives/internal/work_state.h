// The state that a Work waits for. No LibTorch here. Thread safety: finish() once, the rest from
// any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>

#include "muster/base/error.h"
#include "muster/collectives/work.h"

namespace muster::inline v0_1 {

struct Work::State {
  virtual ~State() = default;
  // Called by a thread that waits, or without `block` by one that polls: may bring the operation
  // forward on the caller's thread.
  virtual void help(bool /*block*/) {}

  bool is_finished() const { return finished.load(std::memory_order_acquire) != 0; }
  void finish(std::optional<Error> failure) {
    error = std::move(failure);
    if (notes_end.load(std::memory_order_relaxed)) ended = std::chrono::steady_clock::now();
    // Sequentially consistent. With a weaker order the processor may publish the store only after
    // notify_all() has read that no thread waits, and a thread that begins to wait in between would
    // sleep for good.
    finished.store(1, std::memory_order_seq_cst);
    finished.notify_all();
  }

  std::atomic<int> finished = 0;
  std::atomic<bool> notes_end = false;
  // Both are written before `finished`.
  std::optional<Error> error;
  std::optional<std::chrono::steady_clock::time_point> ended;
};

namespace internal {

// A Work that has failed already.
Work failed_work(const Error& error);

}  // namespace internal
}  // namespace muster::inline v0_1
