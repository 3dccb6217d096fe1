// What a checkpoint gives back to the replicas. Thread safety: belongs to the replica's thread.
#pragma once

#include <string>

#include "muster/checkpoint/checkpoint.h"
#include "muster/distribute/session.h"

namespace muster::inline v0_1::distribute {

// On the chief, between finish_build() and share_state(): variables, slots and counters get the
// values of `checkpoint`, which was found at `prefix`. Throws InvalidArgument listing every
// difference between the model and the checkpoint.
void restore_state(Session& session, Checkpoint& checkpoint, const std::string& prefix);

}  // namespace muster::inline v0_1::distribute
