// A bounded first-in-first-out queue between threads. Every wait ends when the queue is closed.
// Thread safety: any number of threads push and pop.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "muster/base/error.h"

namespace muster::inline v0_1 {

// The queue; T is moved in and out.
template <typename T>
class BlockingQueue {
 public:
  // `capacity` entries at most, at least 1.
  explicit BlockingQueue(size_t capacity) : capacity_(capacity) {
    if (capacity == 0) throw invalid_argument("a queue needs a capacity of at least 1, got 0");
  }
  BlockingQueue(const BlockingQueue&) = delete;
  BlockingQueue& operator=(const BlockingQueue&) = delete;

  // Waits until the queue has space for an entry. Returns false, and drops the entry, when the
  // queue is or gets closed.
  bool push(T entry) {
    std::unique_lock lock(mutex_);
    has_room_.wait(lock, [&] { return closed_ || entries_.size() < capacity_; });
    if (closed_) return false;
    entries_.push_back(std::move(entry));
    has_entry_.notify_one();
    return true;
  }

  // Waits for an entry. Nothing once the queue is closed and empty.
  std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    has_entry_.wait(lock, [&] { return closed_ || !entries_.empty(); });
    return take();
  }

  // The same, but looks from time to time whether to give up; nothing then either.
  template <typename GiveUp>
  std::optional<T> pop(const GiveUp& give_up) {
    constexpr auto kLook = std::chrono::milliseconds(20);
    std::unique_lock lock(mutex_);
    while (!has_entry_.wait_for(lock, kLook, [&] { return closed_ || !entries_.empty(); })) {
      if (give_up()) return std::nullopt;
    }
    return take();
  }

  // No entry gets in any more; those inside can still be popped.
  void close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    has_room_.notify_all();
    has_entry_.notify_all();
  }

  bool closed() const {
    const std::lock_guard lock(mutex_);
    return closed_;
  }

  // close(), and the entries inside are dropped.
  void cancel() {
    std::deque<T> dropped;
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
      dropped.swap(entries_);
      has_room_.notify_all();
      has_entry_.notify_all();
    }
  }

 private:
  // While the mutex is held.
  std::optional<T> take() {
    if (entries_.empty()) return std::nullopt;
    std::optional<T> entry(std::move(entries_.front()));
    entries_.pop_front();
    has_room_.notify_one();
    return entry;
  }

  const size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable has_room_;
  std::condition_variable has_entry_;
  std::deque<T> entries_;
  bool closed_ = false;
};

}  // namespace muster::inline v0_1
