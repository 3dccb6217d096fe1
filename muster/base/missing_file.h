// Opens files that a user has named. If the file is missing, the error lists the files that exist
// there. Files that are looked for again and again are opened by their FileSystem itself, which
// looks no further. Thread safety: a free function.
#pragma once

#include <memory>
#include <string>

#include "muster/base/export.h"
#include "muster/base/file_system.h"

namespace muster::inline v0_1 {

// Returns for a hint the content of the folder of `path`, and the nearest name in it; or says that
// this folder does not exist.
std::string what_stands_beside(FileSystem& files, const std::string& path);

// Returns a reader, or the error of FileSystem::open_reader(). The hint of a NotFound lists the
// content of the folder, or names the missing folder.
MUSTER_PART_EXPORT Result<std::unique_ptr<FileReader>> open_named_file(FileSystem& files,
                                                                       const std::string& path);

}  // namespace muster::inline v0_1
