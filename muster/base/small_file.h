// Reads files that are small, or damaged. Thread safety: a free function.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/file_system.h"

namespace muster::inline v0_1 {

// As FileSystem::read_file() for a file of at most `most` bytes; Corrupt for a larger one, of which
// nothing is read.
Result<std::string> read_small_file(FileSystem& files, const std::string& path, uint64_t most);

}  // namespace muster::inline v0_1
