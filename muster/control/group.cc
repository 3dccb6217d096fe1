#include "muster/control/group.h"

#include "muster/base/error.h"

namespace muster::inline v0_1::control {
namespace {

void check_cluster(const cluster::ResolvedCluster& cluster) {
  if (cluster.coordinator_address.empty()) {
    throw invalid_argument("a run on one process alone has no coordinator",
                           "set TF_CONFIG for a cluster");
  }
}

}  // namespace

ServerOptions server_options(const cluster::ResolvedCluster& cluster) {
  check_cluster(cluster);
  ServerOptions options;
  options.address = cluster.coordinator_address;
  for (size_t rank = 0; rank < cluster.workers.size(); ++rank) {
    options.group.roster.push_back({cluster.workers[rank].name(), cluster.addresses[rank]});
  }
  return options;
}

JoinOptions join_options(const cluster::ResolvedCluster& cluster) {
  check_cluster(cluster);
  return {.address = cluster.coordinator_address,
          .task = cluster.task.name(),
          .rank = cluster.rank,
          .world_size = static_cast<int>(cluster.workers.size()),
          .coordinator_task = cluster.workers.front().name()};
}

}  // namespace muster::inline v0_1::control
