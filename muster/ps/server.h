// A parameter server: holds its part of the weights and slots, makes the updates, and serves until
// the run is over. The first server also keeps the ledger of the run. Thread safety: serve()
// belongs to its thread; it calls `build` on another one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "muster/distribute/start_options.h"
#include "muster/ps/internal/surroundings.h"
#include "muster/ps/parameter_server.h"

namespace muster::inline v0_1::ps {

// Serves at this task's address of TF_CONFIG until the chief says that the run is over. Throws
// Unavailable when the address is in use, InvalidArgument when this program's model differs from
// the chief's, Timeout when no chief comes in StartOptions::join_timeout, PeerLost when it is gone
// for ParameterServerOptions::restart_timeout or the run has failed, Cancelled when this task was
// asked to stop.
void serve(const distribute::StartOptions& start, const distribute::ParameterServerOptions& options,
           const distribute::BuildModel& build, const Surroundings& surroundings = {});

}  // namespace muster::inline v0_1::ps
