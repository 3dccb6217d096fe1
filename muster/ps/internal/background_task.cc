#include "muster/ps/internal/background_task.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>

namespace muster::inline v0_1::ps {

struct BackgroundTask::Impl {
  explicit Impl(Clock& by) : clock(by) {}

  Clock& clock;
  std::mutex mutex;
  std::condition_variable changed;
  std::function<void()> task;  // under way; empty: none
  std::exception_ptr failed;
  bool closing = false;
  std::optional<Thread> thread;

  void stay() {
    std::unique_lock lock(mutex);
    while (true) {
      clock.wait_until(lock, changed, TimePoint::max(), [&] { return closing || task; });
      if (!task) return;
      lock.unlock();
      std::exception_ptr thrown;
      try {
        task();
      } catch (...) {
        thrown = std::current_exception();
      }
      lock.lock();
      // What it holds is released before anybody goes on.
      task = nullptr;
      failed = thrown;
      changed.notify_all();
    }
  }
};

BackgroundTask::BackgroundTask(const Surroundings& surroundings)
    : impl_(std::make_unique<Impl>(*surroundings.clock)) {
  impl_->thread.emplace(surroundings, [impl = impl_.get()] { impl->stay(); });
}

BackgroundTask::~BackgroundTask() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->closing = true;
  }
  impl_->changed.notify_all();
  impl_->thread.reset();  // while what it uses is there
}

void BackgroundTask::send(std::function<void()> task) {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->task = std::move(task);
  }
  impl_->changed.notify_all();
}

void BackgroundTask::wait() {
  std::unique_lock lock(impl_->mutex);
  impl_->clock.wait_until(lock, impl_->changed, TimePoint::max(), [&] { return !impl_->task; });
  if (const std::exception_ptr failed = std::exchange(impl_->failed, nullptr))
    std::rethrow_exception(failed);
}

}  // namespace muster::inline v0_1::ps
