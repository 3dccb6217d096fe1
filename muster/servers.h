// Weights on parameter servers, and calls that a chief schedules on workers. The library is
// muster::servers.
#pragma once

#include "muster/calls/cluster_coordinator.h"
#include "muster/calls/remote_call.h"
#include "muster/ps/parameter_server.h"
