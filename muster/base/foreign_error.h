// Turns exceptions of other libraries and of the user's own code into Errors. Thread safety: pure
// functions.
#pragma once

#include <exception>

#include "muster/base/error.h"
#include "muster/base/export.h"

namespace muster::inline v0_1 {

// Returns an Internal error such as "std::runtime_error was thrown: no such column"; std::bad_alloc
// gets a hint.
Error foreign_error(const std::exception& error);
// Returns an Internal error for an exception that is not a std::exception.
Error unknown_error();
// Returns the exception that is being handled: an Error unchanged, and others as above. REQUIRES:
// an exception is being handled.
MUSTER_PART_EXPORT Error current_error();

}  // namespace muster::inline v0_1
