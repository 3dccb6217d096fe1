// TPUs: the slice that this process is part of, and the strategy that trains on its chips. The
// library is muster::tpu.
#pragma once

#include "muster/tpu/tpu_resolver.h"
#include "muster/tpu/tpu_strategy.h"
