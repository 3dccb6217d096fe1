// The first words on a connection to a parameter server: who comes, and what must be alike.
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "muster/cluster/resolve.h"
#include "muster/distribute/parameter_server.h"

namespace muster::inline v0_1::ps {

// What a task says of itself: `rank` is that of a worker, -1 of a server; `purpose` is what the
// connection is for.
nlohmann::json hello(const cluster::ResolvedCluster& cluster,
                     const distribute::ParameterServerOptions& options, int rank,
                     uint64_t incarnation, const std::string& purpose);
// Throws InvalidArgument where the task that says it has another cluster or other options than the
// one that hears it.
void check_hello(const nlohmann::json& hello, const cluster::ResolvedCluster& cluster,
                 const distribute::ParameterServerOptions& options);

}  // namespace muster::inline v0_1::ps
