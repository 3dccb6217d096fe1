#include "muster/collectives/connect.h"

#include <fmt/format.h>

#include "muster/base/log.h"
#include "muster/collectives/gloo_communicator.h"
#include "muster/collectives/shared_memory_communicator.h"

namespace muster::inline v0_1 {

std::optional<Transport> parse_transport(std::string_view name) {
  if (name == "auto") return Transport::kAuto;
  if (name == "gloo") return Transport::kGloo;
  if (name == "shared_memory") return Transport::kSharedMemory;
  return std::nullopt;
}

std::unique_ptr<Communicator> make_communicator(const ConnectOptions& options) {
  std::unique_ptr<Communicator> communicator;
  std::string why;
  if (options.transport != Transport::kGloo) {
    const SharedMemoryOptions shared{.rendezvous = options.rendezvous,
                                     .rank = options.rank,
                                     .size = options.size,
                                     .group = options.group,
                                     .timeout = options.timeout,
                                     .connect_timeout = options.connect_timeout};
    if (options.transport == Transport::kSharedMemory) {
      communicator = make_shared_memory_communicator(shared);
    } else {
      communicator = try_shared_memory_communicator(shared, &why);
      if (!communicator) why = " (no shared memory: " + why + ")";
    }
  }
  if (!communicator) {
    communicator = make_gloo_communicator({.rendezvous = options.rendezvous,
                                           .rank = options.rank,
                                           .size = options.size,
                                           .address = options.address,
                                           .group = options.group,
                                           .timeout = options.timeout,
                                           .connect_timeout = options.connect_timeout});
  }
  if (options.rank == 0 && options.size > 1) {
    log::info(
        fmt::format("{} ranks communicate over {}{}", options.size, communicator->name(), why));
  }
  return communicator;
}

}  // namespace muster::inline v0_1
