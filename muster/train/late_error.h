// An error at a place that cannot throw, such as the end of a scope: the log has it, and run_main()
// ends the program with its exit code, so that lost work is not taken for done. Thread-safe.
#pragma once

#include <optional>

#include "muster/base/error.h"
#include "muster/base/export.h"

namespace muster::inline v0_1 {

// Of several the first counts.
MUSTER_PART_EXPORT void note_late_error(const Error& error);
// What was noted since the last call.
std::optional<Error> take_late_error();

}  // namespace muster::inline v0_1
