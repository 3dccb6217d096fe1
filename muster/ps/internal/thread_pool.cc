#include "muster/ps/internal/thread_pool.h"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <vector>

namespace muster::inline v0_1::ps {

struct ThreadPool::Impl {
  explicit Impl(Clock& by) : clock(by) {}

  Clock& clock;
  std::mutex mutex;
  std::condition_variable changed;
  const std::function<void(size_t)>* work = nullptr;
  uint64_t round = 0;
  size_t at_work = 0;
  bool closing = false;
  std::vector<std::exception_ptr> errors;
  std::deque<Thread> threads;

  void call(size_t member) {
    try {
      (*work)(member);
    } catch (...) {
      errors[member] = std::current_exception();
    }
  }

  void stay(size_t member) {
    uint64_t seen = 0;
    while (true) {
      {
        std::unique_lock lock(mutex);
        clock.wait_until(lock, changed, TimePoint::max(), [&] { return closing || round > seen; });
        if (closing) return;
        seen = round;
      }
      call(member);
      const std::lock_guard lock(mutex);
      if (--at_work == 0) changed.notify_all();
    }
  }
};

ThreadPool::ThreadPool(size_t size, const Surroundings& surroundings)
    : impl_(std::make_unique<Impl>(*surroundings.clock)) {
  impl_->errors.resize(size);
  for (size_t member = 1; member < size; ++member)
    impl_->threads.emplace_back(surroundings, [this, member] { impl_->stay(member); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->closing = true;
  }
  impl_->changed.notify_all();
  impl_->threads.clear();  // while what they use is there
}

void ThreadPool::run(const std::function<void(size_t)>& work) {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->work = &work;
    impl_->errors.assign(impl_->errors.size(), nullptr);
    impl_->at_work = impl_->threads.size();
    ++impl_->round;
  }
  impl_->changed.notify_all();
  impl_->call(0);
  {
    std::unique_lock lock(impl_->mutex);
    impl_->clock.wait_until(lock, impl_->changed, TimePoint::max(),
                            [&] { return impl_->at_work == 0; });
  }
  for (const std::exception_ptr& error : impl_->errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace muster::inline v0_1::ps
