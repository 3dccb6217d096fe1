// Where and how a model trains, as a description: constructing one opens and reads nothing.
// Thread safety: immutable values, shared by pointer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/cluster/resolve.h"
#include "muster/collectives/connect.h"
#include "muster/distribute/session.h"

namespace muster::inline v0_1::distribute {

// What a strategy needs to bring the replicas together.
struct StartOptions {
  cluster::ResolvedCluster cluster;  // of this task; local when there is none
  uint64_t seed = 0;                 // of initial values and shuffles
  double join_timeout = 600;         // seconds to wait for all tasks to appear
  std::function<bool()> cancelled;   // asked while waiting for them; true ends the wait
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  // "OneDevice", "Mirrored", "MultiWorkerMirrored".
  virtual std::string_view name() const = 0;
  // Whether workers are peers that train in step: then a cluster of workers alone is valid, worker
  // 0 being the chief.
  virtual bool multi_worker() const = 0;
  // Brings the replicas together; one session for each replica of this process, to be used by a
  // thread of its own. Throws InvalidArgument when the cluster does not suit the strategy, Timeout
  // naming who did not appear, Unavailable when an address is in use.
  virtual std::vector<std::unique_ptr<Session>> start_replicas(
      const StartOptions& options) const = 0;
  // The same for a strategy of one replica in this process. Throws InvalidArgument for one of
  // several.
  std::unique_ptr<Session> start(const StartOptions& options) const;
};

// How RunConfig holds a strategy.
using StrategyPtr = std::shared_ptr<const Strategy>;

// One replica in this process.
StrategyPtr one_device();

// Options of mirrored().
struct MirroredOptions {
  int replicas = 2;                          // threads of this process that train in step
  int64_t bytes_per_pack = 2 * 1024 * 1024;  // of a gradient bucket; 0 puts all gradients into one
  double timeout_seconds = 1800;             // after which one collective gives up
  // A replica that keeps the others at a save, an evaluation or the end without a new step for so
  // long counts as stuck; in a collective, timeout_seconds counts.
  double progress_timeout_seconds = 300;
};
// Several replicas in one process, each a thread with variables of its own that are equal on all:
// gradients are summed, every replica makes the same update. The model function is called by all of
// them at the same time, and the process's threads are shared out among them; so what it captures
// must allow that.
StrategyPtr mirrored(const MirroredOptions& options = {});

// Options of multi_worker_mirrored(): transport, buckets and patience.
struct CommunicationOptions {
  // How workers exchange gradients. kAuto is also what MUSTER_TRANSPORT says (auto, gloo or
  // shared_memory), when it is set.
  Transport implementation = Transport::kAuto;
  int64_t bytes_per_pack = 2 * 1024 * 1024;  // of a gradient bucket; 0 puts all gradients into one
  double timeout_seconds =
      1800;  // after which one collective gives up; dead peers are noticed long before
  double heartbeat_seconds = 1;          // how often a task says that it is alive
  double heartbeat_timeout_seconds = 6;  // silence after which a task counts as lost
  // A live task that keeps the others at a barrier (of a save, an evaluation, the end) without a
  // new step for so long counts as stuck; in a collective, timeout_seconds counts.
  double progress_timeout_seconds = 300;
};

// One replica per worker process of the cluster, kept in step by all-reduce; worker 0, or the chief
// where there is one, saves. Alone (no cluster) it is one replica.
StrategyPtr multi_worker_mirrored(const CommunicationOptions& options = {});

}  // namespace muster::inline v0_1::distribute
