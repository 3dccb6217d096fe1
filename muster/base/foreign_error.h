// Exceptions of other libraries and of the user's own code, in words of ours.
// Thread safety: pure functions.
#pragma once

#include <exception>

#include "muster/base/error.h"

namespace muster::inline v0_1 {

// Internal, "std::runtime_error was thrown: no such column"; std::bad_alloc gets a hint.
Error foreign_error(const std::exception& error);
// Internal, for what is no std::exception.
Error unknown_error();
// The exception being handled: an Error as it is, others as above. REQUIRES: called in a handler.
Error current_error();

}  // namespace muster::inline v0_1
