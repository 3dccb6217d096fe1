// Threads for parallel requests, and the state that all readers of a store share. Thread safety:
// submit() and the counters from any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "muster/stores/internal/object_service.h"
#include "muster/stores/store_options.h"

namespace muster::inline v0_1::stores::internal {

// Runs tasks on a limited number of threads, which start as they are needed.
class TransferThreads {
 public:
  explicit TransferThreads(int most) : most_(most) {}
  // Runs the submitted tasks to their end.
  ~TransferThreads();
  // Tasks are begun in order. They may not wait for other tasks.
  void submit(std::function<void()> task);

 private:
  void work();

  const int most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::vector<std::thread> threads_;
  int idle_ = 0;
  bool ending_ = false;
};

// One store and the means to read and write it.
struct Transfers {
  Transfers(std::unique_ptr<ObjectSource> from, const StoreOptions& limits);

  const StoreOptions limits;
  const std::unique_ptr<ObjectSource> source;
  std::atomic<size_t> held_ahead{0};  // bytes of all readers
  TransferThreads threads;            // ends first
};

// Reads [offset, offset + out.size()), and continues after the received bytes when a transfer
// breaks. Returns Corrupt when the object ends before.
Status read_block(ObjectSource& source, const ObjectName& object, const ObjectInfo& info,
                  uint64_t offset, MutableBytes out, Cancellation* cancellation);

}  // namespace muster::inline v0_1::stores::internal
