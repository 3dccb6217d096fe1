// How a group ended, by how each of its tasks did: whose failure ended it, with which exit code,
// and what people are told of it. Thread safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "muster/launch/supervise.h"

namespace muster::inline v0_1::launch::internal {

// `specs` and `exits` are of the same tasks, in the same order; who could not be ended counts as
// killed, the last. `stop_signal` is what this process was sent first, 0 for nothing.
Outcome judge(const std::vector<const ProcessSpec*>& specs, std::vector<TaskExit> exits,
              int stop_signal);

// The lines that say why the group failed; none where it did not. `hung` is after which time a task
// was taken for one that hangs, and `on_screen` whether the last error of the root cause stands
// among the last lines already.
std::vector<std::string> reasons(const Outcome& outcome,
                                 const std::vector<const ProcessSpec*>& specs,
                                 const std::string& hung, bool on_screen);

}  // namespace muster::inline v0_1::launch::internal
