// A bounded first-in-first-out queue between threads. Every wait ends when the queue is closed or
// its time is up. Thread safety: any number of threads push and pop.
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

  // Waits for room. False, and the entry is dropped, when the queue is or gets closed.
  bool push(T entry) {
    std::unique_lock lock(mutex_);
    has_room_.wait(lock, [&] { return closed_ || entries_.size() < capacity_; });
    return push_locked(lock, std::move(entry));
  }

  // False when there was no room within `timeout`, or the queue is closed; `entry` is then
  // untouched.
  bool push_for(T& entry, std::chrono::nanoseconds timeout) {
    std::unique_lock lock(mutex_);
    if (!has_room_.wait_for(lock, timeout, [&] { return closed_ || entries_.size() < capacity_; }))
      return false;
    if (closed_) return false;
    return push_locked(lock, std::move(entry));
  }

  // Waits for an entry. Nothing once the queue is closed and empty.
  std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    has_entry_.wait(lock, [&] { return closed_ || !entries_.empty(); });
    return pop_locked(lock);
  }

  // Nothing when none came within `timeout`, or the queue is closed and empty: drained() tells
  // which.
  std::optional<T> pop_for(std::chrono::nanoseconds timeout) {
    std::unique_lock lock(mutex_);
    has_entry_.wait_for(lock, timeout, [&] { return closed_ || !entries_.empty(); });
    return pop_locked(lock);
  }

  // No entry gets in any more; those inside can still be popped.
  void close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    has_room_.notify_all();
    has_entry_.notify_all();
  }

  // close(), and what is inside is dropped.
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

  bool closed() const {
    std::lock_guard lock(mutex_);
    return closed_;
  }
  bool drained() const {
    std::lock_guard lock(mutex_);
    return closed_ && entries_.empty();
  }
  size_t size() const {
    std::lock_guard lock(mutex_);
    return entries_.size();
  }
  size_t capacity() const { return capacity_; }

 private:
  bool push_locked(std::unique_lock<std::mutex>&, T entry) {
    if (closed_) return false;
    entries_.push_back(std::move(entry));
    has_entry_.notify_one();
    return true;
  }

  std::optional<T> pop_locked(std::unique_lock<std::mutex>&) {
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
