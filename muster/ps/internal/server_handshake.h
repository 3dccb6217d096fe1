// The first words on a connection to a parameter server: who comes, and what must be alike.
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "muster/cluster/resolved_cluster.h"
#include "muster/net/server_messages.h"
#include "muster/ps/parameter_server.h"

namespace muster::inline v0_1::ps {

// What a task says of itself: `rank` is that of a worker, -1 of a server.
net::Handshake handshake_of(const cluster::ResolvedCluster& cluster,
                            const distribute::ParameterServerOptions& options, int rank,
                            uint64_t incarnation, net::Purpose purpose);
// Throws InvalidArgument where the task that says it has another cluster or other options than the
// one that hears it.
void check_handshake(const net::Handshake& handshake, const cluster::ResolvedCluster& cluster,
                     const distribute::ParameterServerOptions& options);

}  // namespace muster::inline v0_1::ps
