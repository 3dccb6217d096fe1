// Says how the other tasks of a cluster have to be started, in the terms of the launcher that gave
// this task its place. Thread safety: pure functions.
#pragma once

#include <string>

#include "muster/cluster/resolved_cluster.h"

namespace muster::inline v0_1::cluster {

// How the task of that name, "worker:1", joins the cluster: "with RANK=1, WORLD_SIZE=2 and
// MASTER_ADDR=node1", "by Slurm, as rank 1 of 2"; "" if it is none of its workers.
std::string how_started(const ResolvedCluster& cluster, const std::string& task);

}  // namespace muster::inline v0_1::cluster
