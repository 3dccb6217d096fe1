// How the `muster` command tells what went wrong. Thread safety: free functions.
#pragma once

#include "muster/base/error.h"

namespace muster::app {

// Prints an error, its causes and its hint on lines of their own. The kind is left out, because the
// exit code, which this returns, tells it to programs.
int report_error(const Error& error);

}  // namespace muster::app
