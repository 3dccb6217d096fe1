#include "muster/collectives/transport.h"

#include <string>

#include "muster/base/strings.h"

namespace muster::inline v0_1 {

std::optional<Transport> parse_transport(std::string_view name) {
  const std::string word = to_lower(name);
  if (word == "auto") return Transport::kAuto;
  if (word == "tcp" || word == "ring" || word == "gloo") return Transport::kTcp;
  if (word == "shared_memory") return Transport::kSharedMemory;
  if (word == "nccl") return Transport::kNccl;
  return std::nullopt;
}

std::string_view transport_name(Transport transport) {
  switch (transport) {
    case Transport::kTcp:
      return "tcp";
    case Transport::kSharedMemory:
      return "shared_memory";
    case Transport::kNccl:
      return "nccl";
    default:
      return "auto";
  }
}

}  // namespace muster::inline v0_1
