// What every transport shares: checks of tensors, operations as data, and who executes them.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "muster/collectives/communicator.h"
#include "muster/collectives/internal/executor.h"
#include "muster/collectives/internal/operation.h"
#include "muster/collectives/internal/operation_queue.h"
#include "muster/tensor/device.h"

namespace muster::inline v0_1::internal {

// Zeroed uint8 memory, 64-byte aligned. Throws InvalidArgument for fewer than 0 bytes.
Tensor allocate_on(Device device, int64_t bytes);

class TensorCommunicator : public Communicator {
 public:
  int rank() const final { return rank_; }
  int size() const final { return size_; }
  Tensor allocate(int64_t bytes) override;
  Work all_reduce(const Tensor& buffer) final;
  Work reduce_scatter(const Tensor& in, const Tensor& out) final;
  Work broadcast(const Tensor& buffer, int root) final;
  Work all_gather(const Tensor& in, const Tensor& out) final;
  Work barrier() final;
  void abort(ErrorKind kind, const std::string& reason) final;
  using Communicator::abort;

 protected:
  // Throws InvalidArgument unless 0 <= rank < size. Tensors are on `device`.
  TensorCommunicator(int rank, int size, Device device = at::kCPU);

  // Sets the executor of operations; call it once for groups of two or more, when all is ready.
  void start(std::shared_ptr<Executor> executor);
  // A queue with a communication thread.
  void start(OperationQueue::Hooks hooks);
  // Ends it; to be called first in the destructor. Operations that are still outstanding are
  // aborted.
  void stop();
  // Ends the operation that a queue's execute() is in, if there is one, and every later one. Any
  // thread.
  virtual void interrupt(const Error& /*error*/) {}

 private:
  void check(const Tensor& tensor, const char* call) const;
  Work submit(Operation operation, const Tensor& a, const Tensor& b = {});

  const int rank_;
  const int size_;
  const Device device_;
  std::shared_ptr<Executor> executor_;
  uint64_t calls_ = 0;  // of the thread that issues operations
  std::mutex mutex_;
  std::optional<Error> aborted_;  // groups of one; others keep it in the executor
};

}  // namespace muster::inline v0_1::internal
