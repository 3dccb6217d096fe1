#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/host_identity.h"
#include "muster/collectives/device_communicator.h"
#include "muster/collectives/internal/device_backend.h"
#include "muster/tensor/libtorch.h"

static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 14, 0),
              "Muster needs NCCL 2.14, the first whose calls need not block");

namespace muster::inline v0_1 {
namespace {

using SteadyClock = std::chrono::steady_clock;
using internal::ElementType;
using internal::Operation;
using internal::OperationKind;

constexpr const char* kAskNccl = "set NCCL_DEBUG=WARN to see what NCCL has to say about it";

ncclDataType_t type_of(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return ncclFloat32;
    case ElementType::kFloat64:
      return ncclFloat64;
    case ElementType::kInt64:
      return ncclInt64;
    case ElementType::kBfloat16:
      return ncclBfloat16;
    case ElementType::kFloat16:
      return ncclFloat16;
    case ElementType::kByte:
      break;
  }
  return ncclUint8;
}

class NcclBackend final : public internal::DeviceBackend {
 public:
  // Returns when all ranks are connected. No call of NCCL blocks, or a rank that is lost meanwhile
  // would block the others for ever.
  NcclBackend(const ncclUniqueId& id, int rank, int size, const DeviceCommunicatorOptions& options)
      : timeout_(options.timeout) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    try {
      settle(ncclCommInitRankConfig(&group_, size, id, rank, &config), "connecting",
             options.connect_timeout);
    } catch (const Error& error) {
      abort();
      // Which system call failed is not news of a peer: to start again would not help.
      throw Error(error.kind() == ErrorKind::kPeerLost ? ErrorKind::kInternal : error.kind(),
                  error.message(), error.hint());
    } catch (...) {
      abort();
      throw;
    }
  }
  // All ranks are through: others may still send through this one.
  ~NcclBackend() override {
    constexpr std::chrono::seconds kPatience(5);
    const std::lock_guard lock(mutex_);
    if (group_ == nullptr) return;
    try {
      settle(ncclCommFinalize(group_), "the end", kPatience);
      ncclCommDestroy(group_);
    } catch (const Error&) {
      ncclCommAbort(group_);
    }
  }

  std::string_view name() const override { return "NCCL"; }

  void enqueue(const Operation& operation, const c10::Stream& stream) override {
    const std::lock_guard lock(mutex_);
    if (group_ == nullptr) throw Error(ErrorKind::kCancelled, "NCCL's group was ended");
    settle(start(operation, c10::cuda::CUDAStream(stream).stream()), operation.describe(),
           timeout_);
  }

  void check() override {
    const std::lock_guard lock(mutex_);
    if (group_ == nullptr) return;
    const ncclResult_t result = state();
    if (result != ncclSuccess && result != ncclInProgress) throw failed(result, "an operation");
  }

  void abort() noexcept override {
    ended_ = true;  // first: a thread that waits for NCCL holds the lock
    const std::lock_guard lock(mutex_);
    if (group_ != nullptr) ncclCommAbort(std::exchange(group_, nullptr));
  }

 private:
  ncclResult_t start(const Operation& operation, cudaStream_t stream) {
    const auto count = static_cast<size_t>(operation.count);
    const ncclDataType_t type = type_of(operation.type);
    switch (operation.kind) {
      case OperationKind::kAllReduce:
        return ncclAllReduce(operation.data, operation.data, count, type, ncclSum, group_, stream);
      case OperationKind::kReduceScatter:
        return ncclReduceScatter(operation.data, operation.out, count, type, ncclSum, group_,
                                 stream);
      case OperationKind::kBroadcast:
        return ncclBroadcast(operation.data, operation.data, count, type, operation.root, group_,
                             stream);
      case OperationKind::kAllGather:
        return ncclAllGather(operation.data, operation.out, count, type, group_, stream);
      case OperationKind::kBarrier:
        break;
    }
    throw internal_error("NCCL has no barrier");
  }

  ncclResult_t state() {
    ncclResult_t result = ncclSuccess;
    return ncclCommGetAsyncError(group_, &result) == ncclSuccess ? result : ncclInternalError;
  }

  // Until NCCL has taken a call, for which it may have to connect to peers.
  void settle(ncclResult_t result, const std::string& what, std::chrono::milliseconds timeout) {
    for (const auto deadline = SteadyClock::now() + timeout; result == ncclInProgress;
         result = state()) {
      if (ended_) throw Error(ErrorKind::kCancelled, what + " over NCCL was ended");
      if (SteadyClock::now() > deadline) {
        throw Error(ErrorKind::kTimeout,
                    fmt::format("NCCL was not through with {} after {} s", what,
                                static_cast<double>(timeout.count()) * 1e-3),
                    kAskNccl);
      }
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    if (result != ncclSuccess) throw failed(result, what);
  }

  Error failed(ncclResult_t result, const std::string& what) const {
    const bool peer = result == ncclSystemError || result == ncclRemoteError;
    const char* said = ncclGetLastError(group_);
    return Error(
        peer ? ErrorKind::kPeerLost : ErrorKind::kInternal,
        fmt::format("NCCL failed in {}: {}{}{}", what, ncclGetErrorString(result),
                    said != nullptr && *said != '\0' ? ": " : "", said != nullptr ? said : ""),
        kAskNccl);
  }

  const std::chrono::milliseconds timeout_;
  std::atomic<bool> ended_ = false;
  std::mutex mutex_;
  ncclComm_t group_ = nullptr;
};

// Texts of up to 255 bytes, of all ranks.
std::vector<std::string> gather_texts(Communicator& host, const std::string& mine) {
  constexpr int64_t kLength = 256;
  const Tensor own = torch::zeros({kLength}, at::kByte);
  std::memcpy(own.data_ptr(), mine.data(), std::min<size_t>(mine.size(), kLength - 1));
  const Tensor all = torch::zeros({host.size() * kLength}, at::kByte);
  host.all_gather(own, all).wait();
  std::vector<std::string> texts;
  for (int rank = 0; rank < host.size(); ++rank)
    texts.emplace_back(static_cast<const char*>(all.data_ptr()) + rank * kLength);
  return texts;
}

// The GPU itself, however this process numbers it.
std::string identity_of(Device device) {
  std::array<char, 64> bus{};
  const cudaError_t code =
      cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), device.index());
  if (code != cudaSuccess) {
    throw Error(
        ErrorKind::kUnavailable,
        fmt::format("{} does not say where it is: {}", device.str(), cudaGetErrorString(code)),
        "look at nvidia-smi");
  }
  return fmt::format("{} of {}", bus.data(), host_identity());
}

}  // namespace

bool built_with_nccl() { return true; }

std::unique_ptr<Communicator> try_nccl_communicator(std::unique_ptr<Communicator>& host,
                                                    const DeviceCommunicatorOptions& options,
                                                    std::string* why_not) {
  const std::vector<std::string> gpus = gather_texts(*host, identity_of(options.device));
  const std::vector<std::string> processes =
      gather_texts(*host, fmt::format("{} of {}", static_cast<int64_t>(getpid()), host_identity()));
  bool shares_process = false;
  for (size_t b = 0; b < gpus.size(); ++b) {
    for (size_t a = 0; a < b; ++a) {
      shares_process |= processes[a] == processes[b];
      if (gpus[a] != gpus[b]) continue;
      *why_not = fmt::format("ranks {} and {} have the same GPU", a, b);
      return nullptr;
    }
  }
  // In one process, a CUDA memory allocation of one GPU may wait for a GPU that waits for it:
  // kernels of all its GPUs have to start together.
  static std::once_flag told;
  if (shares_process)
    std::call_once(told, [] { setenv("NCCL_LAUNCH_MODE", "GROUP", /*overwrite=*/0); });
  const Tensor bytes = torch::zeros({static_cast<int64_t>(sizeof(ncclUniqueId))}, at::kByte);
  ncclUniqueId id{};
  if (host->rank() == 0) {
    if (const ncclResult_t result = ncclGetUniqueId(&id); result != ncclSuccess) {
      throw internal_error(fmt::format("NCCL cannot begin: {}", ncclGetErrorString(result)),
                           kAskNccl);
    }
    std::memcpy(bytes.data_ptr(), &id, sizeof(id));
  }
  host->broadcast(bytes, 0).wait();
  std::memcpy(&id, bytes.data_ptr(), sizeof(id));
  const DeviceScope here(options.device);
  auto group = std::make_unique<NcclBackend>(id, host->rank(), host->size(), options);
  return internal::make_device_backend_communicator(std::move(host), std::move(group),
                                                    options.device, options.timeout);
}

}  // namespace muster::inline v0_1
