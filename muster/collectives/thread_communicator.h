// Ranks that are threads of one process and read each other's memory. For tests, and for
// more replicas in one process than can share memory as processes do.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "muster/collectives/communicator.h"

namespace muster::inline v0_1 {

// A group of threads.
struct ThreadGroupOptions {
  int size = 1;
  // An operation fails with Timeout when a rank has not come to it for this long.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
};

// One communicator per rank, to be given to one thread each. Throws InvalidArgument for a size
// below 1.
std::vector<std::unique_ptr<Communicator>> make_thread_communicators(
    const ThreadGroupOptions& options);

}  // namespace muster::inline v0_1
