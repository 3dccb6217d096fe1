// Shows a file of Keras. Thread safety: pure functions of the files.
#pragma once

#include <string>

#include "apps/muster/inspect.h"
#include "muster/base/file_system.h"

namespace muster::app {

// Shows a .h5, .weights.h5 or .keras, or another HDF5 file that ends so: its weights by the names
// that Muster has for them, and where they lie in the file. Throws what opening it throws.
Inspection inspect_keras(FileSystem& files, const std::string& path, bool json);

}  // namespace muster::app
