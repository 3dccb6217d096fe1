// Errors of the library in the terms of this command: an option of C++ is a flag here, or does not
// exist. Thread safety: pure functions.
#pragma once

#include "muster/base/error.h"

namespace muster::app {

// The same error with a hint that names flags of `muster train` alone. A hint that still names
// something of C++ says that it is for programs.
Error in_own_words(const Error& error);

}  // namespace muster::app
