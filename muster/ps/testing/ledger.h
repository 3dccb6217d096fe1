// The ledger of parameter servers and what is said to it, for simulations in other folders.
#pragma once

#include "muster/ps/internal/ledger_host.h"
#include "muster/ps/internal/wire.h"
