// Reads the thread count that a user asks for, MUSTER_THREADS, in one way for all readers. Thread
// safety: a pure function.
#pragma once

#include <optional>

#include "muster/base/environment.h"

namespace muster::inline v0_1 {

// Returns MUSTER_THREADS, which is 1 to 4096; nothing when it is unset or empty. Throws
// InvalidArgument for anything else.
std::optional<int> threads_asked_for(const Environment& environment);

}  // namespace muster::inline v0_1
