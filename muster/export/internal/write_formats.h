// Writes an export in further formats. Thread safety: a free function.
#pragma once

#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/export/internal/description.h"

namespace muster::inline v0_1::internal {

// Writes the module, the bytes of model.pt, in each format into the folder `directory`, and adds
// the digests of the files to the description. Throws the errors of model_format() and of the
// formats.
void write_formats(FileSystem& files, const std::string& directory,
                   const std::vector<std::string>& formats, const std::string& module,
                   ServableDescription& description);

}  // namespace muster::inline v0_1::internal
