// Refuses a cluster to strategies that do not suit it.
// Thread safety: pure functions.
#pragma once

#include <string_view>

#include "muster/cluster/resolved_cluster.h"

namespace muster::inline v0_1::distribute::internal {

// Throws InvalidArgument where TF_CONFIG lists parameter servers: they would wait for a run that
// never comes.
void check_no_servers(const cluster::ResolvedCluster& cluster, std::string_view strategy);

// For a strategy that trains in one process: there must be no servers. Throws InvalidArgument if
// TF_CONFIG describes several workers: each would train alone.
void check_one_process(const cluster::ResolvedCluster& cluster, std::string_view strategy);

}  // namespace muster::inline v0_1::distribute::internal
