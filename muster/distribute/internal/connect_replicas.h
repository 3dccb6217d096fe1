// Connects the replicas of a process. Thread safety: any thread.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "muster/base/error.h"
#include "muster/collectives/communicator.h"

namespace muster::inline v0_1::distribute {

// Makes the communicators of this process's replicas. `connect` is called for all replicas at the
// same time, since each call waits for the others. Throws the error of the first call that failed.
// `failed` gets that error at once, so that it can notify the replicas that wait.
std::vector<std::unique_ptr<Communicator>> connect_replicas(
    int locals, const std::function<std::unique_ptr<Communicator>(int local)>& connect,
    const std::function<void(const Error& error)>& failed = {});

}  // namespace muster::inline v0_1::distribute
