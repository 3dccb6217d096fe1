// A task of a run with certificates, as the environment describes it, in a process of its own.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <optional>

#include "muster/base/environment.h"
#include "muster/control/coordinator_client.h"
#include "muster/control/coordinator_options.h"
#include "muster/control/coordinator_server.h"

namespace muster::inline v0_1::control {

// Joins, waits for the others, and leaves. Returns the exit code; 3 if there are no certificates.
inline int run_tls_member() {
  const cluster::ResolvedCluster cluster =
      cluster::resolve_cluster(Environment::process(), {.worker_zero_may_be_chief = true});
  if (!cluster.job.tls) return 3;
  std::optional<CoordinatorServer> server;
  if (cluster.rank == 0) server.emplace(server_options(cluster));
  const auto client = CoordinatorClient::join(join_options(cluster));
  client->set(fmt::format("here/{}", cluster.rank), "yes");
  for (size_t rank = 0; rank < cluster.workers.size(); ++rank)
    client->get(fmt::format("here/{}", rank), 30);
  std::puts("all met over TLS");
  client->barrier("end", 30);
  client->done();
  client->close();
  return !server || server->stop(30) ? 0 : 4;
}

}  // namespace muster::inline v0_1::control
