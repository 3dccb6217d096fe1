// How a task gets into its group. Thread safety: a call blocks its own thread only.
#pragma once

#include <cstdint>
#include <memory>

#include "muster/base/process_identity.h"
#include "muster/control/join_options.h"
#include "muster/plan/verdict.h"

namespace muster::inline v0_1::control {

// The way to the coordinator on which the group was formed.
struct Joined {
  std::unique_ptr<net::CoordinatorChannel> channel{};
  int64_t epoch = 0;
  ProcessIdentity coordinator{};
};

// Asks the coordinator until all tasks of the group have joined (an observer: until it answers).
// Throws as CoordinatorClient::join.
Joined join_group(const JoinOptions& options, const plan::Caller& who);

}  // namespace muster::inline v0_1::control
