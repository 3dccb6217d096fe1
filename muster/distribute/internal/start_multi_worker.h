// Where MultiWorkerMirrored begins: multi_worker_mirrored_strategy.cc over the control plane, or
// without_control_plane.cc, which says that there is none.
#pragma once

#include <memory>
#include <vector>

#include "muster/distribute/replica.h"
#include "muster/distribute/start_options.h"
#include "muster/distribute/strategy.h"

namespace muster::inline v0_1::distribute {

// The replicas of this task, one on each device, in a cluster of several workers. Throws
// as Strategy::start(); InvalidArgument in a build without the control plane.
std::vector<std::unique_ptr<Replica>> start_multi_worker(const StartOptions& start,
                                                         const CommunicationOptions& options,
                                                         const std::vector<Device>& devices);

}  // namespace muster::inline v0_1::distribute
