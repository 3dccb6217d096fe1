// Files for the tests of `muster train`. Thread safety: any thread.
#pragma once

#include <string>
#include <string_view>

#include "muster/base/file_system.h"

namespace muster::app {

// Writes the file, and returns its path.
inline std::string written(const std::string& path, std::string_view text) {
  local_file_system().write_atomically(path, text).value();
  return path;
}

}  // namespace muster::app
