// Files and folders found by a pattern, on disks and in stores. Thread safety: free functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/file_system.h"

namespace muster::inline v0_1::stores {

// A file or folder, and what the listing said of it.
struct FoundPath {
  std::string path;
  FileInfo info;
};

// Whether a part of a path holds "*", "?" or "[".
bool has_wildcard(std::string_view pattern);

// Gives what matches, sorted by path. "*" and "?" stand for any letters and "[a-c]" for one of
// several, none of them for a slash, and as in a shell not for a dot at the beginning. What a URI
// begins with, as "s3://bucket", is no pattern. Files that are still being written are left out.
// Empty where nothing matches; throws Error naming the pattern where a folder cannot be listed.
std::vector<FoundPath> find_paths(FileSystem& files, const std::string& pattern);

// The error for a path or pattern that nothing matches: it tells what stands where the first part
// that is not plain was looked for.
Error nothing_matches(FileSystem& files, const std::string& pattern);

// Gives all files in `folder` and below, sorted by path; folders themselves are not among them, and
// neither are files that are still being written. Throws what listing throws, and InvalidArgument
// for an object with ".." or "." for a folder, which no disk could take.
std::vector<FoundPath> files_below(FileSystem& files, const std::string& folder);

}  // namespace muster::inline v0_1::stores
