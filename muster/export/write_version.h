// Writes an exported model as the newest version in a folder of versions. Thread safety: free
// functions; several processes may write into one folder.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/file_system.h"
#include "muster/export/write_servable.h"

namespace muster::inline v0_1 {

// Throws InvalidArgument for an empty folder and a receiver without features.
void check_export(const std::string& export_dir, const ServingInputReceiver& receiver);

// Writes `source` as the folder `<export_dir>/<seconds>`, or under one more than the newest version
// there where that is not less; returns its path. The folder is made aside and then renamed, so it
// is whole or absent. Throws what check_export() and write_servable() throw.
std::string write_version(FileSystem& files, const std::string& export_dir, int64_t seconds,
                          const ServableSource& source);

}  // namespace muster::inline v0_1
