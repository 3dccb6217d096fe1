#include "muster/ps/internal/background_task.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace muster::inline v0_1::ps {

struct BackgroundTask::Impl {
  std::mutex mutex;
  std::condition_variable changed;
  std::function<void()> task;  // under way; empty: none
  std::exception_ptr failed;
  bool closing = false;
  std::thread thread;

  void stay() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return closing || task; });
      if (!task) return;
      lock.unlock();
      std::exception_ptr thrown;
      try {
        task();
      } catch (...) {
        thrown = std::current_exception();
      }
      lock.lock();
      // Its resources are released before the waiting threads continue.
      task = nullptr;
      failed = thrown;
      changed.notify_all();
    }
  }
};

BackgroundTask::BackgroundTask() : impl_(std::make_unique<Impl>()) {
  impl_->thread = std::thread([impl = impl_.get()] { impl->stay(); });
}

BackgroundTask::~BackgroundTask() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->closing = true;
  }
  impl_->changed.notify_all();
  impl_->thread.join();
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
  impl_->changed.wait(lock, [&] { return !impl_->task; });
  if (const std::exception_ptr failed = std::exchange(impl_->failed, nullptr))
    std::rethrow_exception(failed);
}

}  // namespace muster::inline v0_1::ps
