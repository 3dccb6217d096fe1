#include "muster/ps/internal/courier.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace muster::inline v0_1::ps {

struct Courier::Impl {
  std::mutex mutex;
  std::condition_variable changed;
  std::function<void()> errand;  // under way; empty: none
  std::exception_ptr failed;
  bool closing = false;
  std::thread thread;

  void stay() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return closing || errand; });
      if (!errand) return;
      lock.unlock();
      std::exception_ptr thrown;
      try {
        errand();
      } catch (...) {
        thrown = std::current_exception();
      }
      lock.lock();
      // What it holds is let go before anybody goes on.
      errand = nullptr;
      failed = thrown;
      changed.notify_all();
    }
  }
};

Courier::Courier() : impl_(std::make_unique<Impl>()) {
  impl_->thread = std::thread([impl = impl_.get()] { impl->stay(); });
}

Courier::~Courier() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->closing = true;
  }
  impl_->changed.notify_all();
  impl_->thread.join();
}

void Courier::send(std::function<void()> errand) {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->errand = std::move(errand);
  }
  impl_->changed.notify_all();
}

void Courier::wait() {
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait(lock, [&] { return !impl_->errand; });
  if (const std::exception_ptr failed = std::exchange(impl_->failed, nullptr))
    std::rethrow_exception(failed);
}

}  // namespace muster::inline v0_1::ps
