// How many bytes the message sockets of this process have moved. Thread safety: any thread.
#pragma once

#include <cstdint>

#include "muster/base/export.h"

namespace muster::inline v0_1::net {

struct Traffic {
  int64_t sent = 0, received = 0;  // bytes, since the process began
};

// Heads and payloads, without what TLS and the network add.
MUSTER_PART_EXPORT Traffic traffic();

}  // namespace muster::inline v0_1::net
