#include "muster/collectives/device_communicator.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/error.h"

namespace muster::inline v0_1 {

void check_transport(Transport transport, Device device) {
  if (transport != Transport::kNccl) return;
  if (!built_with_nccl()) {
    throw invalid_argument(
        "not supported: NCCL; this Muster was built without it",
        "build Muster with a LibTorch for CUDA and NCCL's headers (Debian: libtorch-cuda-dev and "
        "libnccl-dev), or let Muster choose the transport (auto)");
  }
  if (!device.is_cuda()) {
    throw invalid_argument(
        fmt::format("NCCL moves buffers between GPUs, and this replica computes on {}",
                    device.str()),
        "train on GPUs (devices = {\"cuda\"}), or let Muster choose the transport (auto)");
  }
}

std::unique_ptr<Communicator> make_device_communicator(std::unique_ptr<Communicator> host,
                                                       const DeviceCommunicatorOptions& options,
                                                       std::string* how) {
  check_transport(options.transport, options.device);
  if (options.device.is_cpu()) return host;
  const bool nccl = options.transport == Transport::kNccl;
  std::string why = built_with_nccl() ? "it was not asked for" : "this Muster was built without it";
  if (built_with_nccl() && options.device.is_cuda() &&
      (nccl || options.transport == Transport::kAuto)) {
    if (auto group = try_nccl_communicator(host, options, &why)) {
      *how = " (GPUs by NCCL)";
      return group;
    }
    if (nccl) {
      throw invalid_argument("NCCL cannot be used: " + why,
                             "let Muster choose the transport (auto), or give each replica its own "
                             "GPU: with several workers on one host, by CUDA_VISIBLE_DEVICES");
    }
  }
  if (options.device.is_xla()) {
    *how = " (devices through the CPU)";
    return make_recorded_communicator(std::move(host), options.device);
  }
  *how = options.device.is_cuda() ? fmt::format(" (GPUs through the CPU, without NCCL: {})", why)
                                  : " (devices through the CPU)";
  return make_staged_communicator(std::move(host), options.device, options.timeout);
}

}  // namespace muster::inline v0_1
