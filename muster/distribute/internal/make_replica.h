// Puts a replica among others together.
// Thread safety: any thread.
#pragma once

#include <memory>
#include <string>

#include "muster/distribute/internal/local_group.h"
#include "muster/distribute/internal/process_group.h"
#include "muster/distribute/replica.h"

namespace muster::inline v0_1::distribute::internal {

// `title` begins Replica::describe(); `processes` is nullptr when there is one process.
std::unique_ptr<Replica> make_replica(const ReplicaPlace& place, const std::string& title,
                                      uint64_t seed, std::unique_ptr<Communicator> communicator,
                                      std::shared_ptr<LocalGroup> threads,
                                      std::shared_ptr<ProcessGroup> processes,
                                      const WireOptions& wire);

}  // namespace muster::inline v0_1::distribute::internal
