#include "muster/collectives/internal/tensor_communicator.h"

#include <fmt/format.h>

#include <utility>

#include "muster/collectives/internal/collective_ring.h"
#include "muster/collectives/internal/work_state.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/threads.h"

namespace muster::inline v0_1 {

Tensor Communicator::allocate(int64_t bytes) { return internal::allocate_on(at::kCPU, bytes); }

namespace internal {

Tensor allocate_on(Device device, int64_t bytes) {
  if (bytes < 0) throw invalid_argument(fmt::format("cannot allocate {} bytes", bytes));
  Tensor memory = torch::zeros({bytes}, at::device(device).dtype(at::kByte));
  if (reinterpret_cast<uintptr_t>(memory.data_ptr()) % 64 != 0) {
    throw internal_error("the allocator returned memory that is not 64-byte aligned");
  }
  return memory;
}

namespace {

ElementType element_type(const Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return ElementType::kFloat32;
    case at::kDouble:
      return ElementType::kFloat64;
    case at::kLong:
      return ElementType::kInt64;
    case at::kBFloat16:
      return ElementType::kBfloat16;
    case at::kHalf:
      return ElementType::kFloat16;
    default:
      return ElementType::kByte;
  }
}

void check_summable(const Operation& operation, const Tensor& tensor, const char* call) {
  if (operation.type != ElementType::kByte) return;
  throw invalid_argument(fmt::format(
      "{} sums float32, float64, int64, bfloat16 and float16, not {}", call, describe(tensor)));
}

Operation operation_on(OperationKind kind, const Tensor& tensor) {
  Operation operation{.kind = kind, .type = element_type(tensor)};
  operation.count = static_cast<int64_t>(tensor.nbytes()) / size_of(operation.type);
  operation.data = static_cast<std::byte*>(tensor.data_ptr());
  return operation;
}

}  // namespace

TensorCommunicator::TensorCommunicator(int rank, int size, Device device)
    : rank_(rank), size_(size), device_(device) {
  if (size < 1 || rank < 0 || rank >= size) {
    throw invalid_argument(fmt::format("rank {} is not in a group of {}", rank, size));
  }
}

Tensor TensorCommunicator::allocate(int64_t bytes) { return allocate_on(device_, bytes); }

void TensorCommunicator::check(const Tensor& tensor, const char* call) const {
  if (!tensor.defined()) throw invalid_argument(fmt::format("{} got an undefined tensor", call));
  if (tensor.device() == device_ && tensor.dim() == 1 && tensor.is_contiguous()) return;
  throw invalid_argument(
      fmt::format("{} needs a contiguous one-dimensional tensor on {}, got {}{} on {}", call,
                  device_.is_cpu() ? "the CPU" : device_.str(), describe(tensor),
                  tensor.is_contiguous() ? "" : " (strided)", tensor.device().str()),
      "pass buffer.contiguous().view(-1), or reduce the flat buffer it lives in");
}

void TensorCommunicator::start(std::shared_ptr<Executor> executor) {
  executor_ = std::move(executor);
}

void TensorCommunicator::start(OperationQueue::Hooks hooks) {
  hooks.start = [inner = std::move(hooks.start)] {
    enter_thread();
    if (inner) inner();
  };
  start(std::make_shared<OperationQueue>(std::move(hooks)));
}

void TensorCommunicator::stop() {
  if (!executor_) return;
  if (!executor_->idle()) abort("the communicator was closed with operations outstanding");
  executor_.reset();
}

Work TensorCommunicator::submit(Operation operation, const Tensor& a, const Tensor& b) {
  if (!executor_) {
    const std::lock_guard lock(mutex_);
    return aborted_ ? failed_work(*aborted_) : Work();
  }
  operation.owner = std::make_shared<std::pair<Tensor, Tensor>>(a, b);
  operation.sequence = ++calls_;
  if (!device_.is_cpu()) return executor_->submit(std::move(operation));
  const Operation form{.kind = operation.kind,
                       .type = operation.type,
                       .root = operation.root,
                       .count = operation.count,
                       .sequence = operation.sequence};
  Work work = executor_->submit(std::move(operation));
  note_collective(name(), rank_, size_, form, work);
  return work;
}

Work TensorCommunicator::all_reduce(const Tensor& buffer) {
  check(buffer, "all_reduce");
  Operation operation = operation_on(OperationKind::kAllReduce, buffer);
  check_summable(operation, buffer, "all_reduce");
  return submit(std::move(operation), buffer);
}

Work TensorCommunicator::reduce_scatter(const Tensor& in, const Tensor& out) {
  check(in, "reduce_scatter");
  check(out, "reduce_scatter");
  if (in.scalar_type() != out.scalar_type() || in.numel() != out.numel() * size_) {
    throw invalid_argument(fmt::format(
        "reduce_scatter of {} over {} ranks needs an equal part for each, got {} for this one",
        describe(in), size_, describe(out)));
  }
  Operation operation = operation_on(OperationKind::kReduceScatter, out);
  check_summable(operation, in, "reduce_scatter");
  operation.out = operation.data;
  operation.data = static_cast<std::byte*>(in.data_ptr());
  if (size_ == 1 && operation.out != operation.data) out.detach().copy_(in.detach());
  return submit(std::move(operation), in, out);
}

Work TensorCommunicator::broadcast(const Tensor& buffer, int root) {
  check(buffer, "broadcast");
  if (root < 0 || root >= size_) {
    throw invalid_argument(fmt::format("broadcast from rank {} in a group of {}", root, size_));
  }
  Operation operation = operation_on(OperationKind::kBroadcast, buffer);
  operation.root = root;
  return submit(std::move(operation), buffer);
}

Work TensorCommunicator::all_gather(const Tensor& in, const Tensor& out) {
  check(in, "all_gather");
  check(out, "all_gather");
  if (in.scalar_type() != out.scalar_type() || out.numel() != in.numel() * size_) {
    throw invalid_argument(fmt::format(
        "all_gather of {} over {} ranks needs {}[{}] to gather into, got {}", describe(in), size_,
        dtype_name(in.scalar_type()), in.numel() * size_, describe(out)));
  }
  Operation operation = operation_on(OperationKind::kAllGather, in);
  operation.out = static_cast<std::byte*>(out.data_ptr());
  if (size_ == 1 && operation.out != operation.data) out.detach().copy_(in.detach());
  return submit(std::move(operation), in, out);
}

Work TensorCommunicator::barrier() { return submit({.kind = OperationKind::kBarrier}, {}); }

void TensorCommunicator::abort(ErrorKind kind, const std::string& reason) {
  const Error error(kind, reason);
  if (!executor_) {
    const std::lock_guard lock(mutex_);
    if (!aborted_) aborted_ = error;
    return;
  }
  if (executor_->fail(error)) interrupt(error);
}

}  // namespace internal
}  // namespace muster::inline v0_1
