#include "muster/data/internal/worker_pool.h"

#include <system_error>
#include <utility>

#include "muster/tensor/threads.h"

namespace muster::inline v0_1::data::internal {

WorkerPool::WorkerPool(int size) {
  try {
    for (int i = 1; i < size; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    // As many as the system gives: the caller of each() works too.
  }
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  has_work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::each(size_t count, const std::function<void(size_t)>& fn) {
  std::unique_lock lock(mutex_);
  fn_ = &fn;
  next_ = 0;
  count_ = count;
  failure_ = nullptr;
  has_work_.notify_all();
  take_part(lock);
  is_done_.wait(lock, [this] { return running_ == 0; });
  fn_ = nullptr;
  if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void WorkerPool::work() {
  enter_thread();
  std::unique_lock lock(mutex_);
  while (true) {
    has_work_.wait(lock, [this] { return stopping_ || next_ < count_; });
    if (stopping_) return;
    take_part(lock);
  }
}

void WorkerPool::take_part(std::unique_lock<std::mutex>& lock) {
  while (next_ < count_) {
    const size_t i = next_++;
    ++running_;
    lock.unlock();
    std::exception_ptr failure;
    try {
      (*fn_)(i);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    --running_;
    if (failure != nullptr && (failure_ == nullptr || i < failed_at_)) {
      failure_ = failure;
      failed_at_ = i;
      next_ = count_;  // those before it are under way
    }
  }
  if (running_ == 0) is_done_.notify_all();
}

}  // namespace muster::inline v0_1::data::internal
