// Operations that are executed one at a time, by a thread of the queue or by a waiting one. No
// LibTorch here.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "muster/collectives/internal/executor.h"

namespace muster::inline v0_1::internal {

// Executes operations one at a time: on a thread of its own, in parallel with the caller's work, or
// on the thread that waits for one, which saves the hand-over.
class OperationQueue final : public Executor {
 public:
  struct Hooks {
    std::function<void()> start{};                    // first on the queue's thread
    std::function<void(const Operation&)> execute{};  // throws Error
    // Last on the queue's thread; the failure, or nullptr.
    std::function<void(const Error*)> finish{};
  };
  explicit OperationQueue(Hooks hooks);
  // Ends the thread after the running operation; queued operations fail. Abort a blocked operation
  // first.
  ~OperationQueue() override;
  OperationQueue(const OperationQueue&) = delete;
  OperationQueue& operator=(const OperationQueue&) = delete;

  Work submit(Operation operation) override;
  // The running operation is the caller's to end.
  bool fail(const Error& error) override;
  bool idle() const override;

 private:
  struct Core;

  const std::shared_ptr<Core> core_;
  std::thread thread_;
};

}  // namespace muster::inline v0_1::internal
