// Writes an exported model as the newest version in a folder of versions. Thread safety: free
// functions; several processes may write into one folder.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/export/write_servable.h"

namespace muster::inline v0_1 {

// Throws InvalidArgument for an empty folder and a receiver without features.
void check_export(const std::string& export_dir, const ServingInputReceiver& receiver);

// Writes `source` as the folder `<export_dir>/<seconds>`, or under one more than the newest version
// there where that is not less; returns its path. The folder is made aside and then renamed, so it
// is whole or absent. In a store it is made in its place, signatures.json last, and counts as a
// version from then on (model_versions()); two processes must not export into one folder of a store
// in the same second. Throws what check_export() and write_servable() throw.
MUSTER_PART_EXPORT std::string write_version(FileSystem& files, const std::string& export_dir,
                                             int64_t seconds, const ServableSource& source);

// Removes a version, so that no reader takes half of it for a version. Returns what the file system
// says.
Status remove_version(FileSystem& files, const std::string& export_dir, int64_t version);

}  // namespace muster::inline v0_1
