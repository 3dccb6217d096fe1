// The ways buffers travel between ranks, by name. Thread safety: values.
#pragma once

#include <optional>
#include <string_view>

#include "muster/base/export.h"

namespace muster::inline v0_1 {

// How buffers travel between ranks.
enum class Transport {
  // Shared memory when all ranks are on one host and can reach each other; on several hosts, TCP,
  // with shared memory inside of hosts that have several ranks one after the other. Where ranks
  // cannot share memory, TCP between all of them, and the log says why. Tensors of GPUs: NCCL
  // where this Muster was built with it and no GPU is shared, else through the CPU.
  kAuto,
  kTcp,
  kSharedMemory,  // Unavailable when the ranks cannot share memory
  // Between GPUs; InvalidArgument where there are none, or no NCCL. What is on the CPU travels as
  // by kAuto.
  kNccl,
};
// "auto", "tcp", "shared_memory", "nccl", in any case; "ring" and "gloo", as other systems call
// sums over TCP, are "tcp". Nothing for another word.
MUSTER_EXPORT std::optional<Transport> parse_transport(std::string_view name);
// "auto", "tcp", "shared_memory" or "nccl".
MUSTER_EXPORT std::string_view transport_name(Transport transport);

}  // namespace muster::inline v0_1
