// Opens files that a user has named: who names one that is not there is told what is. Files that
// are looked for again and again are opened by their FileSystem itself, which looks no further.
// Thread safety: a free function.
#pragma once

#include <memory>
#include <string>

#include "muster/base/file_system.h"

namespace muster::inline v0_1 {

// Says for a hint what the folder of `path` holds, and which name of it is near; or that this
// folder is not there.
std::string what_stands_beside(FileSystem& files, const std::string& path);

// Gives a reader, or the error of FileSystem::open_reader(). The hint of a NotFound lists what the
// folder holds in place of the file, or names the folder that is not there.
Result<std::unique_ptr<FileReader>> open_named_file(FileSystem& files, const std::string& path);

}  // namespace muster::inline v0_1
