#include "muster/control/coordinator_options.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/cluster/how_started.h"
#include "muster/cluster/protection_check.h"

namespace muster::inline v0_1::control {
namespace {

void check_cluster(const cluster::ResolvedCluster& cluster) {
  if (cluster.coordinator_address.empty()) {
    throw invalid_argument("a run on one process alone has no coordinator",
                           "set TF_CONFIG for a cluster");
  }
  cluster::check_protected(cluster);
}

void warn_when_open(const cluster::ResolvedCluster& cluster) {
  if (!cluster.job.insecure || !cluster.job.token.empty() || cluster.job.tls) return;
  log::warning(fmt::format(
      "MUSTER_INSECURE=1: every peer that can connect to {} can join, read and end this run",
      cluster.coordinator_address));
}

}  // namespace

ServerOptions server_options(const cluster::ResolvedCluster& cluster) {
  check_cluster(cluster);
  warn_when_open(cluster);
  ServerOptions options;
  options.address = cluster.coordinator_address;
  options.job = cluster.job;
  for (size_t rank = 0; rank < cluster.workers.size(); ++rank) {
    options.group.roster.push_back({cluster.workers[rank].name(), cluster.addresses[rank]});
  }
  return options;
}

JoinOptions join_options(const cluster::ResolvedCluster& cluster) {
  check_cluster(cluster);
  // Not in server_options(): a chief that fails still serves, for a while, and so others that dial
  // see its certificate at once, where they would wait for it.
  cluster::check_certificate_name(cluster);
  return {.address = cluster.coordinator_address,
          .task = cluster.task.name(),
          .rank = cluster.rank,
          .world_size = static_cast<int>(cluster.workers.size()),
          .addresses = cluster.addresses,
          .job = cluster.job,
          .how_started = [cluster](const std::string& task) { return how_started(cluster, task); },
          .coordinator_task = cluster.workers.front().name()};
}

}  // namespace muster::inline v0_1::control
