// Shows a checkpoint of TensorFlow. Thread safety: pure functions of the files.
#pragma once

#include <string>

#include "apps/muster/inspect.h"
#include "muster/base/file_system.h"

namespace muster::app {

// Shows the checkpoint at a prefix, with TensorFlow's names, and verifies all its checksums. Throws
// the errors of opening it.
Inspection inspect_tensorflow(FileSystem& files, const std::string& prefix, bool json);

}  // namespace muster::app
