// Ranks that are threads of one process and read and write each other's buffers where they are.
// Thread safety: as every communicator.
//
// No thread of its own, no copy of a buffer, no socket: any number of ranks. An operation moves
// forward only while its rank issues, asks for or waits for operations. So wait for every Work
// before doing anything else that another rank may depend on.
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
