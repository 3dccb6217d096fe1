// How the `muster` command reports errors. Thread safety: free functions.
#pragma once

#include "muster/base/error.h"

namespace muster::app {

// Prints an error, its causes and its hint on lines of their own. The kind is left out, because the
// exit code, which this returns, carries it.
int report_error(const Error& error);

}  // namespace muster::app
