// The cores of this task, which maps share. Thread safety: any thread.
#pragma once

#include <condition_variable>
#include <mutex>

namespace muster::inline v0_1::data::internal {

// Cores that the calls of maps share. (libstdc++'s counting_semaphore may miss a release.) Thread
// safety: any thread.
class Cores {
 public:
  explicit Cores(int cores) : free_(cores) {}

  // Holds one of them while it lives; none of a null `cores`.
  class Use {
   public:
    explicit Use(Cores* cores) : cores_(cores) {
      if (cores_ == nullptr) return;
      std::unique_lock lock(cores_->mutex_);
      cores_->is_free_.wait(lock, [this] { return cores_->free_ > 0; });
      --cores_->free_;
    }
    ~Use() {
      if (cores_ == nullptr) return;
      const std::lock_guard lock(cores_->mutex_);
      ++cores_->free_;
      cores_->is_free_.notify_one();
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Cores* const cores_;
  };

 private:
  std::mutex mutex_;
  std::condition_variable is_free_;
  int free_;
};

}  // namespace muster::inline v0_1::data::internal
