// Connects the replicas of a process. Thread safety: any thread.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "muster/base/error.h"
#include "muster/collectives/communicator.h"

namespace muster::inline v0_1::distribute {

// The communicators of this process's replicas: `connect` is called for each at the same time, for
// each waits for all others. Throws what the first to fail threw, which `failed` is told at once:
// who waits for that replica may be told too.
std::vector<std::unique_ptr<Communicator>> connect_replicas(
    int locals, const std::function<std::unique_ptr<Communicator>(int local)>& connect,
    const std::function<void(const Error& error)>& failed = {});

}  // namespace muster::inline v0_1::distribute
