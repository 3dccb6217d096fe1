// An error at a place that cannot throw, such as the end of a scope: the log has it, and run_main()
// ends the program with its exit code, so that a lost result is not taken for done. Thread-safe.
#pragma once

#include <optional>

#include "muster/base/error.h"

namespace muster::inline v0_1 {

// If there are several, the first counts.
void note_late_error(const Error& error);
// The error noted since the last call.
std::optional<Error> take_late_error();

}  // namespace muster::inline v0_1
