// The files of this machine and the objects of all stores, by path or URI. Thread safety: all calls
// from any thread.
//
// This is what a path that a user has named is opened with. A plain path and file:// go to
// local_file_system(), and every other scheme to the store that is registered for it, which is made
// when a path first asks for it. Registered are s3, gs, http and https, and what a program adds:
//
//   register_file_system("ours", [] { return std::make_unique<OurStore>(...); });
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/base/file_system.h"

namespace muster::inline v0_1 {

// Makes the file system of a scheme. What it throws as Error is the answer to the call that asked
// for the scheme; the next call tries again.
using FileSystemFactory = std::function<std::unique_ptr<FileSystem>()>;

// Sends each path to the file system of its scheme. A scheme that nobody registered is an
// InvalidArgument that lists those there are, and names the nearest, or the part of Muster that has
// it; so are rename() from one scheme to another, and "s3:/bucket", which lacks a slash.
MUSTER_EXPORT FileSystem& file_systems();

// From now on paths "<scheme>://..." go to what `make` gives, which is called once, when the first
// is asked for. Such paths are taken for those of a store: Muster calls neither open_writer() nor
// rename() there, and expects of a staged writer that the object is whole when commit() is done.
// Replaces what the scheme had. Throws InvalidArgument for "file", for what is no scheme (letters,
// digits, "+", "-" and "."; a letter first), and for a scheme that is in use already.
MUSTER_EXPORT void register_file_system(const std::string& scheme, FileSystemFactory make);

// The schemes that paths may have, sorted, "file" among them.
MUSTER_EXPORT std::vector<std::string> path_schemes();

}  // namespace muster::inline v0_1
