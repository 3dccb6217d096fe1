// Workers that train at their own pace, on weights that live on servers: the strategy and what may
// be chosen.
// Thread safety: values.
#pragma once

#include <cstdint>
#include <optional>

#include "muster/base/clock.h"
#include "muster/base/export.h"
#include "muster/distribute/strategy.h"
#include "muster/plan/placement.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::distribute {

// Options of parameter_server(). The same on all tasks.
struct ParameterServerOptions {
  // How variables, or their parts, are dealt to the servers.
  plan::Placement placement = plan::Placement::kRoundRobin;
  // Into how many parts a variable is cut: by default one for each server, of at least 256 KiB.
  // What an optimizer or a constraint needs as a whole is not cut.
  plan::Partitioner partitioner = plan::Partitioner::min_size();
  // A worker that is so many steps ahead of the slowest one waits for it. Unset: none waits.
  std::optional<int64_t> max_staleness = {};
  // Makes updates synchronous: so many workers' gradients, of the same weights, are averaged for
  // one update, each weighed as its loss is. With fewer than there are workers the others are
  // backups: whose gradient comes too late is dropped, and counted. 0: each worker makes updates of
  // its own.
  int replicas_to_aggregate = 0;
  // How float32 weights and gradients travel: kFloat32, or kBFloat16 for half the bytes, rounded on
  // the way. Servers keep and update them as float32; what a checkpoint holds stays exact.
  DType wire_dtype = kFloat32;
  // Workers on the host of a server read weights out of its memory, and write gradients into it.
  // Without it, with kBFloat16, with certificates, and where the system does not let them, bytes go
  // through sockets.
  bool shared_memory = true;
  // While a worker computes a step, the gradients of the one before travel and become an update,
  // and then the weights of the next one come. So it hardly waits for servers and network, and its
  // weights are older by a step, its own update among what they lack: one worker alone has other
  // bits than a run without servers. One step of a worker is on its way at most; what went wrong
  // with it is thrown by the next call. Bounds and measures of staleness count it.
  bool overlap = false;
  Seconds heartbeat_interval{1};  // how often a task says that it is alive
  Seconds heartbeat_timeout{6};   // silence after which a worker holds nobody up any more
  // For so long servers and workers wait for a chief, and workers for a server, that is gone and
  // may be started again.
  Seconds restart_timeout{300};
  // At the end, for so long a worker is waited for that is gone, and whose data is not used up.
  Seconds rejoin_timeout{60};
  Seconds idle_timeout{60};  // a transfer that stands still for so long has failed
};

// The chief and the workers of the cluster train at their own pace, each with its part of the data;
// weights and optimizers live on the tasks of type "ps". Without a cluster it is one_device().
// Throws InvalidArgument for options outside of what is said there.
MUSTER_EXPORT StrategyPtr parameter_server(const ParameterServerOptions& options = {});

}  // namespace muster::inline v0_1::distribute
