// Threads that do something at several servers at the same time.
// Thread safety: one thread calls run().
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "muster/ps/internal/surroundings.h"

namespace muster::inline v0_1::ps {

class ThreadPool {
 public:
  // The caller is one of them: `size` - 1 threads start. `surroundings` outlive it.
  ThreadPool(size_t size, const Surroundings& surroundings);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Calls work(0) ... work(size - 1) at the same time, and returns when all have. Throws the error
  // of the first of them, in this order.
  void run(const std::function<void(size_t)>& work);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::inline v0_1::ps
