// Refuses a cluster to strategies that train in one process.
// Thread safety: a pure function.
#pragma once

#include <string_view>

#include "muster/cluster/resolve.h"

namespace muster::inline v0_1::distribute::internal {

// Throws InvalidArgument where TF_CONFIG describes several workers: each would train alone.
void check_one_process(const cluster::ResolvedCluster& cluster, std::string_view strategy);

}  // namespace muster::inline v0_1::distribute::internal
