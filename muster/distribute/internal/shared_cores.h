// Tasks of one machine that take its cores twice. Thread safety: pure functions of the system's
// state.
#pragma once

#include <string>
#include <vector>

#include "muster/cluster/resolved_cluster.h"

namespace muster::inline v0_1::distribute {

// The machine of this process, the threads it computes with, and the cores it may use, as text for
// the other tasks.
std::string describe_host();

// Looks at the descriptions of all tasks of the cluster, by rank. If the tasks of this task's
// machine use more threads than it has cores, the first of them warns, and names the setting to
// change.
void warn_of_shared_cores(const std::vector<std::string>& hosts,
                          const cluster::ResolvedCluster& cluster);

}  // namespace muster::inline v0_1::distribute
