#include "muster/base/error.h"
#include "muster/collectives/device_communicator.h"

namespace muster::inline v0_1 {

bool built_with_nccl() { return false; }

std::unique_ptr<Communicator> try_nccl_communicator(std::unique_ptr<Communicator>& /*host*/,
                                                    const DeviceCommunicatorOptions& /*options*/,
                                                    std::string* /*why_not*/) {
  throw internal_error("this Muster was built without NCCL");
}

}  // namespace muster::inline v0_1
