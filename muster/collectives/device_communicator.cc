#include "muster/collectives/device_communicator.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/error.h"

namespace muster::inline v0_1 {

std::unique_ptr<Communicator> make_device_communicator(std::unique_ptr<Communicator> host,
                                                       const DeviceCommunicatorOptions& options,
                                                       std::string* how) {
  const bool nccl = options.transport == Transport::kNccl;
  if (nccl && !options.device.is_cuda()) {
    throw invalid_argument(
        fmt::format("NCCL moves buffers between GPUs, and this replica computes on {}",
                    options.device.str()),
        "train on GPUs (devices = {\"cuda\"}), or let Muster choose the transport (auto)");
  }
  if (options.device.is_cpu()) return host;
  std::string why = "it was not asked for";
  if (options.device.is_cuda() && (nccl || options.transport == Transport::kAuto)) {
    if (nccl || built_with_nccl()) {
      if (auto group = try_nccl_communicator(host, options.device, options.timeout, &why)) {
        *how = " (GPUs by NCCL)";
        return group;
      }
      if (nccl) {
        throw invalid_argument("NCCL cannot be used: " + why,
                               "let Muster choose the transport (auto), or give each replica a GPU "
                               "of its own: with several workers on one host, by "
                               "CUDA_VISIBLE_DEVICES");
      }
    } else {
      why = "this Muster was built without it";
    }
  }
  *how = options.device.is_cuda() ? fmt::format(" (GPUs through the CPU, without NCCL: {})", why)
                                  : " (devices through the CPU)";
  return make_staged_communicator(std::move(host), options.device);
}

}  // namespace muster::inline v0_1
