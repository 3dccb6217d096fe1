// The tasks of a run on parameter servers, for simulations in other folders.
#pragma once

#include "muster/ps/internal/server_connections.h"
#include "muster/ps/internal/surroundings.h"
#include "muster/ps/internal/wire.h"
#include "muster/ps/internal/worker_run.h"
#include "muster/ps/server.h"
