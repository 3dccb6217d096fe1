#include <c10/core/Event.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <fmt/format.h>

#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/foreign_error.h"
#include "muster/collectives/internal/device_backend.h"
#include "muster/collectives/internal/tensor_communicator.h"
#include "muster/collectives/internal/work_state.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

using SteadyClock = std::chrono::steady_clock;

// What travels of a rank's operation: kind, element type, count, root.
constexpr int64_t kSignature = 4;

// The operations of a group, and what ends them. Shared with every Work.
class BackendExecutor final : public Executor,
                              public std::enable_shared_from_this<BackendExecutor> {
 public:
  BackendExecutor(Communicator& host, std::unique_ptr<DeviceBackend> backend, Device device,
                  std::chrono::milliseconds timeout)
      : host_(&host),
        rank_(host.rank()),
        size_(host.size()),
        backend_(std::move(backend)),
        device_(device),
        guard_(c10::impl::getDeviceGuardImpl(device.type())),
        stream_(guard_->getStreamFromGlobalPool(device, /*isHighPriority=*/true)),
        timeout_(timeout) {}

  Work submit(Operation operation) override;
  bool fail(const Error& error) override;
  bool idle() const override;
  // `host` is about to go.
  void leave() {
    const std::lock_guard lock(mutex_);
    host_ = nullptr;
  }
  std::string_view name() const { return backend_->name(); }

 private:
  struct Running;
  void drive_to_end(Running& running, bool block);
  // REQUIRES: it has failed.
  Error why_not_started(const Operation& operation) const;

  mutable std::mutex mutex_;
  Communicator* host_;
  const int rank_, size_;
  const std::unique_ptr<DeviceBackend> backend_;
  const Device device_;
  const c10::impl::DeviceGuardImplInterface* const guard_;
  const c10::Stream stream_;
  const std::chrono::milliseconds timeout_;
  std::optional<Error> failure_;
  uint64_t sequence_ = 0;
  // Their memory is in use until they are done, also without a waiting caller.
  mutable std::deque<std::shared_ptr<Running>> running_;
};

struct BackendExecutor::Running : Work::State {
  Running(std::weak_ptr<BackendExecutor> executor, Operation operation, Device device)
      : executor(std::move(executor)), operation(std::move(operation)), done(device.type()) {}
  void help(bool block) override {
    std::unique_lock lock(mutex, std::defer_lock);
    if (block) {
      lock.lock();
    } else if (!lock.try_lock()) {
      return;  // who waits for it is at it
    }
    if (is_finished()) return;
    if (const auto alive = executor.lock()) {
      alive->drive_to_end(*this, block);
    } else {
      finish(Error(ErrorKind::kCancelled, "the communicator was closed"));
    }
  }

  const std::weak_ptr<BackendExecutor> executor;
  Operation operation;
  std::mutex mutex;
  Tensor mine, all;  // signatures
  Work compared;
  c10::Event done;
};

Work BackendExecutor::submit(Operation operation) {
  operation.sequence = ++sequence_;
  const auto running = std::make_shared<Running>(weak_from_this(), std::move(operation), device_);
  const Operation& op = running->operation;
  std::optional<Error> failure;
  {
    const std::lock_guard lock(mutex_);
    while (!running_.empty() && running_.front()->is_finished()) running_.pop_front();
    if (failure_) return failed_work(failure_->with_context(op.describe() + " was not started"));
    running->mine = torch::tensor({static_cast<int64_t>(op.kind), static_cast<int64_t>(op.type),
                                   op.count, static_cast<int64_t>(op.root)},
                                  at::kLong);
    running->all = torch::empty({size_ * kSignature}, at::kLong);
    running->compared = host_->all_gather(running->mine, running->all);
  }
  try {
    const DeviceScope here(device_);
    // It reads what this thread has let the device compute so far.
    c10::Event computed(device_.type());
    computed.record(guard_->getStream(device_));
    computed.block(stream_);
    backend_->enqueue(op, stream_);
    running->done.record(stream_);
  } catch (...) {
    failure = current_error();
  }
  if (failure) {
    if (!fail(*failure)) failure = why_not_started(op);
    return failed_work(*failure);
  }
  const std::lock_guard lock(mutex_);
  running_.push_back(running);
  return Work(running);
}

void BackendExecutor::drive_to_end(Running& running, bool block) {
  std::optional<Error> failure;
  try {
    if (!block && !running.compared.done()) return;
    // First, whether everybody is in the same operation: else none of them ends.
    running.compared.wait();
    const int64_t* theirs = running.all.data_ptr<int64_t>();
    for (int r = 0; r < size_; ++r, theirs += kSignature) {
      Operation other = running.operation;
      other.kind = static_cast<OperationKind>(theirs[0]);
      other.type = static_cast<ElementType>(theirs[1]);
      other.count = theirs[2];
      other.root = static_cast<int>(theirs[3]);
      if (!running.operation.matches(other)) throw mismatch(rank_, running.operation, r, other);
    }
    for (const auto deadline = SteadyClock::now() + timeout_; !running.done.query();) {
      backend_->check();
      {
        const std::lock_guard lock(mutex_);
        if (failure_) throw Error(*failure_);
      }
      if (!block) return;
      if (SteadyClock::now() > deadline) {
        throw Error(ErrorKind::kTimeout,
                    fmt::format("{} over {} took longer than {} s", running.operation.describe(),
                                backend_->name(), static_cast<double>(timeout_.count()) * 1e-3));
      }
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    // What was ended is done, too; what it left behind is not a sum.
    const std::lock_guard lock(mutex_);
    if (failure_) throw Error(*failure_);
  } catch (...) {
    failure = current_error();
  }
  if (failure) fail(*failure);
  running.operation.owner.reset();
  running.finish(std::move(failure));
}

bool BackendExecutor::fail(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (failure_) return false;
  failure_ = error;
  backend_->abort();
  if (host_ != nullptr) host_->abort(error.kind(), error.message());
  return true;
}

Error BackendExecutor::why_not_started(const Operation& operation) const {
  const std::lock_guard lock(mutex_);
  return failure_->with_context(operation.describe() + " was not started");
}

bool BackendExecutor::idle() const {
  std::deque<std::shared_ptr<Running>> running;
  {
    const std::lock_guard lock(mutex_);
    running = running_;
  }
  // Some may be done without anybody having asked.
  for (const auto& one : running) one->help(/*block=*/false);
  const std::lock_guard lock(mutex_);
  while (!running_.empty() && running_.front()->is_finished()) running_.pop_front();
  return running_.empty();
}

// Tensors of the device.
class DeviceSide final : public TensorCommunicator {
 public:
  DeviceSide(int rank, int size, Device device, std::shared_ptr<BackendExecutor> executor)
      : TensorCommunicator(rank, size, device), name_(executor->name()) {
    if (size > 1) start(std::move(executor));
  }
  ~DeviceSide() override { stop(); }
  std::string_view name() const override { return name_; }

 private:
  const std::string name_;
};

class DeviceBackendCommunicator final : public Communicator {
 public:
  DeviceBackendCommunicator(std::unique_ptr<Communicator> host,
                            std::unique_ptr<DeviceBackend> backend, Device device,
                            std::chrono::milliseconds timeout)
      : host_(std::move(host)),
        executor_(std::make_shared<BackendExecutor>(*host_, std::move(backend), device, timeout)),
        device_(host_->rank(), host_->size(), device, executor_) {}
  ~DeviceBackendCommunicator() override {
    if (!executor_->idle()) abort("the communicator was closed with operations outstanding");
    executor_->leave();
  }

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  std::string_view name() const override { return device_.name(); }
  bool sums_in_rank_order() const override { return false; }
  Tensor allocate(int64_t bytes) override { return device_.allocate(bytes); }
  Work all_reduce(const Tensor& buffer) override { return side(buffer).all_reduce(buffer); }
  Work reduce_scatter(const Tensor& in, const Tensor& out) override {
    return side(in).reduce_scatter(in, out);
  }
  Work broadcast(const Tensor& buffer, int root) override {
    return side(buffer).broadcast(buffer, root);
  }
  Work all_gather(const Tensor& in, const Tensor& out) override {
    return side(in).all_gather(in, out);
  }
  Work barrier() override { return host_->barrier(); }
  void abort(ErrorKind kind, const std::string& reason) override {
    host_->abort(kind, reason);
    device_.abort(kind, reason);
  }
  using Communicator::abort;

 private:
  Communicator& side(const Tensor& tensor) {
    if (tensor.defined() && !tensor.is_cpu()) return device_;
    return *host_;
  }

  const std::unique_ptr<Communicator> host_;
  const std::shared_ptr<BackendExecutor> executor_;
  DeviceSide device_;
};

}  // namespace

std::unique_ptr<Communicator> make_device_backend_communicator(
    std::unique_ptr<Communicator> host, std::unique_ptr<DeviceBackend> backend, Device device,
    std::chrono::milliseconds timeout) {
  return std::make_unique<DeviceBackendCommunicator>(std::move(host), std::move(backend), device,
                                                     timeout);
}

}  // namespace muster::inline v0_1::internal
