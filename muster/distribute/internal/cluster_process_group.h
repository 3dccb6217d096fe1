// The processes of a cluster, which meet at the coordinator that the chief serves.
// Thread safety: as ProcessGroup.
#pragma once

#include <memory>
#include <vector>

#include "muster/collectives/communicator.h"
#include "muster/distribute/internal/process_group.h"
#include "muster/distribute/replica_place.h"
#include "muster/distribute/start_options.h"
#include "muster/distribute/strategy.h"

namespace muster::inline v0_1::distribute {

class ClusterProcessGroup : public ProcessGroup {
 public:
  // Joins the cluster: serves the coordinator if this task is the chief, and waits for all tasks.
  // Throws Timeout naming the missing tasks, Unavailable if an address is in use.
  static std::shared_ptr<ClusterProcessGroup> join(const StartOptions& start,
                                                   const CommunicationOptions& options);

  // The workers of the group, and the place of this task among them. In an elastic run they are a
  // part of the cluster that the task joined with.
  virtual const cluster::ResolvedCluster& members() const = 0;
  // The connection of one replica of this process to all others.
  virtual std::unique_ptr<Communicator> connect(const ReplicaPlace& place) = 0;
  // Throws InvalidArgument on every process when they have different options, different numbers of
  // replicas, or replicas on devices of another kind. All processes call it together.
  virtual void check_options(const std::vector<Device>& devices) = 0;
};

}  // namespace muster::inline v0_1::distribute
