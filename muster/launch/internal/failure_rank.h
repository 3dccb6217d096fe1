// Which failure of a group is the one to blame, by the ranks of supervise.h. Thread safety: pure
// functions.
#pragma once

#include "muster/launch/supervise.h"

namespace muster::inline v0_1::launch::internal {

// Whether an exit asks for the same command again: 138, a requested stop, or a kill, also if a
// shell reports it as 128 + signal.
bool asks_for_restart(const ExitStatus& status);

// The rank of a failure of a task that says it lost another.
inline constexpr int kBlamesAnother = 5;

// The rank of a failure, 1 the highest; 0 for success.
int failure_rank(const TaskExit& exit, const ProcessSpec& spec);

}  // namespace muster::inline v0_1::launch::internal
