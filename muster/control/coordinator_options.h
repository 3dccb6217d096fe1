// Derives the coordinator's options from a task's place in the cluster. Pure functions.
#pragma once

#include "muster/cluster/resolved_cluster.h"
#include "muster/control/coordinator_client.h"
#include "muster/control/coordinator_server.h"

namespace muster::inline v0_1::control {

// For the chief: serves at its own address, the roster is the cluster's workers in rank order.
// Throws InvalidArgument without a cluster.
ServerOptions server_options(const cluster::ResolvedCluster& cluster);

// For every task; the evaluator and parameter servers join as observers. Throws InvalidArgument
// without a cluster, and on the chief when its certificate is for another host.
JoinOptions join_options(const cluster::ResolvedCluster& cluster);

}  // namespace muster::inline v0_1::control
