// Threads for the replicas of one process.
// Thread safety: belongs to the thread that made it, which is also replica 0's.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>

#include "muster/base/export.h"

namespace muster::inline v0_1::distribute {

// A replica's work. One that fails calls `failing` first, and then makes the others end.
using ReplicaFn = std::function<void(size_t replica, const std::function<void()>& failing)>;

class MUSTER_PART_EXPORT ReplicaThreads {
 public:
  // The threads LibTorch may use are shared out among the replicas while this lives.
  explicit ReplicaThreads(size_t count);
  ~ReplicaThreads();
  ReplicaThreads(const ReplicaThreads&) = delete;
  ReplicaThreads& operator=(const ReplicaThreads&) = delete;

  // Calls `work(0)` on this thread and the others each on its own, always the same one, and returns
  // when all are through. Throws the error of the first one that failed; after `patience`, and ever
  // more rarely, a warning says which replicas have not ended since: a thread that hangs can only
  // be ended together with its process.
  void run(const ReplicaFn& work,
           std::chrono::duration<double> patience = std::chrono::seconds(10));

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::inline v0_1::distribute
