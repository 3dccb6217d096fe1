// The first messages on a connection to a parameter server: the sender, and the settings that must
// agree. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "muster/cluster/resolved_cluster.h"
#include "muster/net/server_messages.h"
#include "muster/ps/parameter_server.h"

namespace muster::inline v0_1::ps {

// A task's description of itself: `rank` is a worker's, -1 for a server.
net::Handshake handshake_of(const cluster::ResolvedCluster& cluster,
                            const distribute::ParameterServerOptions& options, int rank,
                            uint64_t incarnation, net::Purpose purpose);
// Throws InvalidArgument if the sender has another cluster or other options than the receiver.
void check_handshake(const net::Handshake& handshake, const cluster::ResolvedCluster& cluster,
                     const distribute::ParameterServerOptions& options);

}  // namespace muster::inline v0_1::ps
