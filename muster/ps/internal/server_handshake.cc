#include "muster/ps/internal/server_handshake.h"

#include <fmt/format.h>

#include <vector>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/plan/failure.h"

namespace muster::inline v0_1::ps {

namespace {

// The settings that tasks must share, because both ends depend on them.
std::string shared(const distribute::ParameterServerOptions& options) {
  const auto& staleness = options.max_staleness;
  return fmt::format(
      "placement={}, partitioner={}, max_staleness={}, replicas_to_aggregate={}, overlap={}, "
      "wire_dtype={}",
      options.placement == plan::Placement::kRoundRobin ? "round_robin" : "by_bytes",
      options.partitioner.describe(), staleness ? std::to_string(*staleness) : "unset",
      options.replicas_to_aggregate, options.overlap, dtype_name(options.wire_dtype));
}

}  // namespace

net::Handshake handshake_of(const cluster::ResolvedCluster& cluster,
                            const distribute::ParameterServerOptions& options, int rank,
                            uint64_t incarnation, net::Purpose purpose) {
  return {.task = plan::readable_task(cluster.task.name()),
          .rank = rank,
          .incarnation = incarnation,
          .purpose = purpose,
          .workers = cluster.addresses,
          .servers = cluster.ps_addresses,
          .options = shared(options)};
}

void check_handshake(const net::Handshake& handshake, const cluster::ResolvedCluster& cluster,
                     const distribute::ParameterServerOptions& options) {
  const std::string own = plan::readable_task(cluster.task.name());
  for (const bool workers : {true, false}) {
    const auto& listed = workers ? handshake.workers : handshake.servers;
    const auto& known = workers ? cluster.addresses : cluster.ps_addresses;
    if (listed == known) continue;
    throw invalid_argument(
        fmt::format("TF_CONFIG of {} lists the {} {}, that of {} {}", handshake.task,
                    workers ? "workers" : "servers", join_quoted(listed), own, join_quoted(known)),
        "give every task the same cluster in TF_CONFIG");
  }
  if (handshake.options == shared(options)) return;
  throw invalid_argument(fmt::format("the ParameterServerOptions of {} are {}, those of {} {}",
                                     handshake.task, handshake.options, own, shared(options)),
                         "start the same program with the same flags in every task");
}

}  // namespace muster::inline v0_1::ps
