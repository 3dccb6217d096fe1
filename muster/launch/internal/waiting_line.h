// Lines by which a task says that it waits for another one. A task that prints only these makes no
// progress. Thread safety: pure functions.
#pragma once

#include <string_view>

namespace muster::inline v0_1::launch::internal {

// Whether a line of Muster's log, as text or as JSON, says "waiting for ..." or "worker 1 is
// waiting for ...". Lines of a program's own are none.
bool says_it_waits(std::string_view line);

}  // namespace muster::inline v0_1::launch::internal
