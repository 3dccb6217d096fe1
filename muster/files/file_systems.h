// The files of this machine and the objects of all stores, by path or URI. Thread safety: all calls
// from any thread.
//
// Muster opens the paths of users with it. A plain path and file:// go to local_file_system().
// Every other scheme goes to its registered store, which is made when a path first uses it.
// Registered are s3, gs, http and https, and the schemes that a program adds:
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

// Makes the file system of a scheme. If it throws an Error, the call that used the scheme returns
// it; the next call tries again.
using FileSystemFactory = std::function<std::unique_ptr<FileSystem>()>;

// Sends each path to the file system of its scheme. An unregistered scheme is an InvalidArgument
// that lists the registered ones, and names the nearest, or the part of Muster that has it. So are
// rename() from one scheme to another, and "s3:/bucket", which lacks a slash.
MUSTER_EXPORT FileSystem& file_systems();

// Registers a file system for paths "<scheme>://..."; `make` is called once, when such a path is
// first used. Muster treats these paths as a store: it calls neither open_writer() nor rename(),
// and expects that a staged writer's commit() makes the whole object appear. Replaces an earlier
// registration. Throws InvalidArgument for "file", for an invalid scheme (letters, digits, "+", "-"
// and "."; a letter first), and for a scheme that is in use already.
MUSTER_EXPORT void register_file_system(const std::string& scheme, FileSystemFactory make);

// Returns the schemes that paths may have, sorted, including "file".
MUSTER_EXPORT std::vector<std::string> path_schemes();

}  // namespace muster::inline v0_1
