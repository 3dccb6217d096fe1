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

// Writes `source` as the folder `<export_dir>/<seconds>`, or, if the newest version there is not
// less, under that plus one; returns its path. The folder is made aside and then renamed, so it is
// whole or absent. In a store it is made in its place, signatures.json last, and counts as a
// version from then on (model_versions()); two processes must not export into one folder of a store
// in the same second. Throws the errors of check_export() and write_servable().
MUSTER_PART_EXPORT std::string write_version(FileSystem& files, const std::string& export_dir,
                                             int64_t seconds, const ServableSource& source);

// Removes a version, so that no reader takes half of it for a version. Returns the file system's
// status.
Status remove_version(FileSystem& files, const std::string& export_dir, int64_t version);

}  // namespace muster::inline v0_1
