#include "muster/base/error.h"
#include "muster/collectives/device_communicator.h"

namespace muster::inline v0_1 {

bool built_with_nccl() { return false; }

std::unique_ptr<Communicator> try_nccl_communicator(std::unique_ptr<Communicator>& /*host*/,
                                                    Device /*device*/,
                                                    std::chrono::milliseconds /*timeout*/,
                                                    std::string* /*why_not*/) {
  throw invalid_argument(
      "not supported: NCCL; this Muster was built without it",
      "build Muster with a LibTorch for CUDA and NCCL's headers (Debian: libtorch-cuda-dev and "
      "libnccl-dev), or let Muster choose the transport (auto)");
}

}  // namespace muster::inline v0_1
