// Determines from the ends of all tasks how their group ended: whose failure ended it, with which
// exit code, and which text users see. Thread safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "muster/launch/supervise.h"

namespace muster::inline v0_1::launch::internal {

// `specs` and `exits` are of the same tasks, in the same order; a task that could not be ended
// counts as killed, the last. `stop_signal` is the first signal that this process got, 0 for none.
Outcome judge(const std::vector<const ProcessSpec*>& specs, std::vector<TaskExit> exits,
              int stop_signal);

// The lines that say why the group failed; none if it did not fail. `hung` is the time after which
// a task counted as hung, and `on_screen` whether the last error of the root cause is among the
// last lines already.
std::vector<std::string> reasons(const Outcome& outcome,
                                 const std::vector<const ProcessSpec*>& specs,
                                 const std::string& hung, bool on_screen);

}  // namespace muster::inline v0_1::launch::internal
