#include "muster/collectives/connect.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "muster/base/host_identity.h"
#include "muster/base/log.h"
#include "muster/collectives/device_communicator.h"
#include "muster/collectives/hierarchical_communicator.h"
#include "muster/collectives/shared_memory_communicator.h"
#include "muster/collectives/tcp_communicator.h"

namespace muster::inline v0_1 {

namespace {

// The number of each rank's host, in the order of ranks.
std::vector<int> hosts_of(const ConnectOptions& options) {
  const auto key = [&](int rank) { return fmt::format("hosts/{}/{}", options.group, rank); };
  std::string own;
  try {
    own = host_identity();
  } catch (const Error&) {
    own = fmt::format("rank {}", options.rank);  // a host of its own
  }
  options.rendezvous->set(key(options.rank), own);
  std::vector<std::string> known;
  std::vector<int> numbers;
  for (int rank = 0; rank < options.size; ++rank) {
    const std::string host = options.rendezvous->get(key(rank), options.connect_timeout);
    auto found = std::ranges::find(known, host);
    if (found == known.end()) found = known.insert(known.end(), host);
    numbers.push_back(static_cast<int>(found - known.begin()));
  }
  return numbers;
}

// Whether some of several hosts have several ranks, and these follow each other.
bool form_a_hierarchy(const std::vector<int>& hosts) {
  const int last = *std::ranges::max_element(hosts);
  return last > 0 && last + 1 < static_cast<int>(hosts.size()) && std::ranges::is_sorted(hosts);
}

}  // namespace

std::unique_ptr<Communicator> make_communicator(const ConnectOptions& options) {
  check_transport(options.transport, options.device);
  std::unique_ptr<Communicator> communicator;
  std::string why;
  const bool free = options.transport == Transport::kAuto || options.transport == Transport::kNccl;
  bool shares = options.transport != Transport::kTcp;  // memory, among all ranks
  if (free && options.size > 2 && options.rendezvous != nullptr) {
    if (const std::vector<int> hosts = hosts_of(options); form_a_hierarchy(hosts)) {
      shares = false;
      communicator =
          try_hierarchical_communicator({.connect = options, .host_of_rank = hosts}, &why);
      why = communicator ? fmt::format(" ({} hosts)", hosts.back() + 1)
                         : fmt::format(" (no shared memory inside of hosts: {})", why);
    }
  }
  if (shares) {
    const SharedMemoryOptions shared{.rendezvous = options.rendezvous,
                                     .rank = options.rank,
                                     .size = options.size,
                                     .group = options.group,
                                     .timeout = options.timeout,
                                     .connect_timeout = options.connect_timeout,
                                     .check_failure = options.check_failure};
    if (options.transport == Transport::kSharedMemory) {
      communicator = make_shared_memory_communicator(shared);
    } else {
      communicator = try_shared_memory_communicator(shared, &why);
      if (!communicator) why = " (no shared memory: " + why + ")";
    }
  }
  if (!communicator) {
    communicator = make_tcp_communicator({.rendezvous = options.rendezvous,
                                          .rank = options.rank,
                                          .size = options.size,
                                          .address = options.address,
                                          .group = options.group,
                                          .timeout = options.timeout,
                                          .connect_timeout = options.connect_timeout,
                                          .check_failure = options.check_failure});
  }
  const std::string name(communicator->name());
  std::string devices;
  communicator = make_device_communicator(std::move(communicator),
                                          {.device = options.device,
                                           .transport = options.transport,
                                           .timeout = options.timeout,
                                           .connect_timeout = options.connect_timeout},
                                          &devices);
  if (options.rank == 0 && options.size > 1)
    log::info(fmt::format("{} replicas train together, connected over {}{}{}", options.size, name,
                          why, devices));
  return communicator;
}

}  // namespace muster::inline v0_1
