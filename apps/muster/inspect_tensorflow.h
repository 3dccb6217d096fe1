// Shows a checkpoint of TensorFlow. Thread safety: pure functions of the files.
#pragma once

#include <string>

#include "apps/muster/inspect.h"
#include "muster/base/file_system.h"

namespace muster::app {

// Shows the checkpoint at a prefix, with TensorFlow's names, and checks the checksums of all that
// it holds. Throws what opening it throws.
Inspection inspect_tensorflow(FileSystem& files, const std::string& prefix, bool json);

}  // namespace muster::app
