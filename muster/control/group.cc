#include "muster/control/group.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/net/port.h"

namespace muster::inline v0_1::control {
namespace {

void check_cluster(const cluster::ResolvedCluster& cluster) {
  if (cluster.coordinator_address.empty()) {
    throw invalid_argument("a run on one process alone has no coordinator",
                           "set TF_CONFIG for a cluster");
  }
  const cluster::Job& job = cluster.job;
  if (!job.token.empty() || job.tls || job.insecure ||
      net::is_loopback(net::split_address(cluster.coordinator_address).host))
    return;
  if (cluster.rank != 0) {
    throw invalid_argument(
        fmt::format("this task, {}, has no MUSTER_JOB_TOKEN, and the coordinator at {} can be "
                    "reached from other machines: without the token of its job no task joins",
                    cluster.task.name(), cluster.coordinator_address),
        "give it the job's: the same MUSTER_JOB_TOKEN, or file of it in MUSTER_JOB_TOKEN_FILE, as "
        "on all other tasks; export MUSTER_JOB_TOKEN=$(openssl rand -hex 32) makes a new one; "
        "where "
        "the network itself keeps strangers out: MUSTER_INSECURE=1");
  }
  throw invalid_argument(
      fmt::format("the coordinator at {} can be reached from other machines, and nothing keeps "
                  "strangers out: whoever connects could join, read and end this run",
                  cluster.coordinator_address),
      "give every task the same secret: export MUSTER_JOB_TOKEN=$(openssl rand -hex 32), or a file "
      "of it in MUSTER_JOB_TOKEN_FILE; where the network itself keeps strangers out: "
      "MUSTER_INSECURE=1");
}

void warn_when_open(const cluster::ResolvedCluster& cluster) {
  if (!cluster.job.insecure || !cluster.job.token.empty() || cluster.job.tls) return;
  log::warning(fmt::format("MUSTER_INSECURE=1: whoever reaches {} can join, read and end this run",
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
  return {.address = cluster.coordinator_address,
          .task = cluster.task.name(),
          .rank = cluster.rank,
          .world_size = static_cast<int>(cluster.workers.size()),
          .addresses = cluster.addresses,
          .job = cluster.job,
          .coordinator_task = cluster.workers.front().name()};
}

}  // namespace muster::inline v0_1::control
