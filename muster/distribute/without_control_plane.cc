#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/distribute/absence.h"
#include "muster/distribute/internal/start_multi_worker.h"

namespace muster::inline v0_1::distribute {

std::vector<std::unique_ptr<Replica>> start_multi_worker(const StartOptions& start,
                                                         const CommunicationOptions& /*options*/,
                                                         const std::vector<Device>& /*devices*/) {
  throw invalid_argument(
      fmt::format("not supported: {} describes {} workers, and this Muster was built without "
                  "its control plane (MUSTER_CONTROL_PLANE=OFF), through which workers meet",
                  start.cluster.source.empty() ? "TF_CONFIG" : start.cluster.source,
                  start.cluster.num_workers),
      "build Muster with -DMUSTER_CONTROL_PLANE=ON, which needs gRPC; or unset TF_CONFIG, or set "
      "MUSTER_CLUSTER=local, to train in one process");
}

void tell_absence(const Error& /*error*/, const std::function<bool()>& /*cancelled*/) noexcept {}
void note_joining() noexcept {}

}  // namespace muster::inline v0_1::distribute
