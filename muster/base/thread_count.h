// The thread count a user asks for: MUSTER_THREADS, read in one way wherever it is read.
// Thread safety: pure.
#pragma once

#include <optional>

#include "muster/base/environment.h"

namespace muster::inline v0_1 {

// MUSTER_THREADS, 1 to 4096; nothing when it is unset or empty. Throws InvalidArgument for anything
// else.
std::optional<int> threads_asked_for(const Environment& environment);

}  // namespace muster::inline v0_1
