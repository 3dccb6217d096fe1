// Threads that share the items of a loop. Thread safety: one thread calls each() at a time.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace muster::inline v0_1::data::internal {

class WorkerPool {
 public:
  // `size` at once, the caller of each() included; at least 1.
  explicit WorkerPool(int size);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Calls fn(0) … fn(count - 1), in any order, and waits for all of them. If several throw, the
  // error of the least index is thrown.
  void each(size_t count, const std::function<void(size_t)>& fn);

 private:
  void work();
  // Takes indices until none is left. The lock is held before and after.
  void take_part(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable has_work_, is_done_;
  const std::function<void(size_t)>* fn_ = nullptr;
  size_t next_ = 0, count_ = 0, running_ = 0;
  size_t failed_at_ = 0;
  std::exception_ptr failure_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace muster::inline v0_1::data::internal
