// Workers that train at their own speed, with weights on servers: the strategy and its options.
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

// Options of parameter_server(). They must be the same on all tasks.
struct ParameterServerOptions {
  // How variables, or their parts, are assigned to the servers.
  plan::Placement placement = plan::Placement::kRoundRobin;
  // How many parts a variable is divided into: by default one for each server, of at least 256 KiB.
  // Variables whose optimizer or constraint needs the whole tensor are not divided.
  plan::Partitioner partitioner = plan::Partitioner::min_size();
  // A worker that is more than this many steps ahead of the slowest one waits for it. Unset: no
  // worker waits.
  std::optional<int64_t> max_staleness = {};
  // Makes updates synchronous: each update averages the gradients of this many workers, for the
  // same weights, weighted like their losses. If there are more workers, the slowest are backups:
  // gradients that arrive too late are dropped and counted. 0: asynchronous, each worker makes its
  // own updates.
  int replicas_to_aggregate = 0;
  // The type in which float32 weights and gradients are sent: kFloat32, or kBFloat16 for half the
  // bytes, rounded when sent. Servers keep and update them in float32, and checkpoints stay exact.
  DType wire_dtype = kFloat32;
  // Whether workers on the host of a server read weights from its memory, and write gradients to
  // it. If false, with kBFloat16, with certificates, or if the system does not allow it, bytes go
  // through sockets.
  bool shared_memory = true;
  // Whether a worker sends the gradients of a step, and receives new weights, while it computes the
  // next step. It then hardly waits for servers and network, but its weights are one step older and
  // lack its own last update: even a single worker gets other bits than a run without servers. A
  // worker sends at most one step at a time; the next call throws the errors of that step. Bounds
  // and measures of staleness count it.
  bool overlap = false;
  Seconds heartbeat_interval{1};  // how often a task reports that it is alive
  Seconds heartbeat_timeout{6};   // silence after which no task waits for a worker any longer
  // How long servers and workers wait for a lost chief, and workers for a lost server, to be
  // restarted.
  Seconds restart_timeout{300};
  // How long the end of the run waits for a lost worker whose data has not ended.
  Seconds rejoin_timeout{60};
  Seconds idle_timeout{60};  // a transfer without progress for this long has failed
};

// The chief and the workers of the cluster train at their own speed, each with its part of the
// data; weights and optimizers are on the tasks of type "ps". Without a cluster it is one_device().
// Throws InvalidArgument if an option is outside its documented range.
MUSTER_EXPORT StrategyPtr parameter_server(const ParameterServerOptions& options = {});

}  // namespace muster::inline v0_1::distribute
