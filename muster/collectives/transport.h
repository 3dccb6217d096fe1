// The transports for buffers between ranks, by name. Thread safety: values.
#pragma once

#include <optional>
#include <string_view>

#include "muster/base/export.h"

namespace muster::inline v0_1 {

// How ranks exchange buffers.
enum class Transport {
  // On one host, shared memory if all ranks can reach it. On several hosts, TCP, with shared memory
  // inside each host whose ranks are consecutive. If ranks cannot share memory, TCP between all of
  // them, and the log says why. Tensors of GPUs travel by NCCL if this Muster was built with it and
  // no two ranks use the same GPU, else through the CPU.
  kAuto,
  kTcp,
  kSharedMemory,  // Unavailable when the ranks cannot share memory
  // Between GPUs; InvalidArgument without GPUs or without NCCL. Tensors on the CPU travel as with
  // kAuto.
  kNccl,
};
// Parses "auto", "tcp", "shared_memory" or "nccl", in any case; "ring" and "gloo", names from other
// systems for sums over TCP, mean "tcp". Returns nothing for another word.
MUSTER_EXPORT std::optional<Transport> parse_transport(std::string_view name);
// "auto", "tcp", "shared_memory" or "nccl".
MUSTER_EXPORT std::string_view transport_name(Transport transport);

}  // namespace muster::inline v0_1
