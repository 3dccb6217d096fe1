// Files and folders found by a pattern, on disks and in stores. Thread safety: free functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/file_system.h"

namespace muster::inline v0_1 {

// A file or folder, and what the listing said of it.
struct FoundPath {
  std::string path{};
  FileInfo info{};
};

// Whether a part of a path holds "*", "?" or "[".
bool has_wildcard(std::string_view pattern);

// Which names that are there win over what they mean as a pattern.
enum class Literal {
  kBrackets,  // those whose brackets stand in the pattern letter by letter: "run[3]", not "run3"
  kAny,       // these, and those that are the pattern letter by letter: "a*b", not "axb"
};

// How far folders are followed: a store may name ever more of them.
struct WalkLimits {
  size_t folders = 1'000'000;
  size_t depth = 512;  // folders in folders
  // What takes long is said in the log every ten seconds of this clock.
  Clock* clock = &system_clock();
};

// Gives what matches, sorted by path. "*" and "?" stand for any letters and "[a-c]" for one of
// several, none of them for a slash, and as in a shell not for a dot at the beginning. A backslash
// takes the meaning of the letter after it, and so does "[*]". Where `literal` decides against
// names that match too, the log says so. What a URI begins with, as "s3://bucket", is not a
// pattern. Files that are still being written are left out. Empty where nothing matches; throws
// Error naming the pattern where a folder cannot be listed, and InvalidArgument for a pattern of a
// store with an empty part ("a//*"): its lists hold none. Throws Corrupt beyond the limits.
std::vector<FoundPath> find_paths(FileSystem& files, const std::string& pattern,
                                  Literal literal = Literal::kBrackets,
                                  const WalkLimits& limits = {});

// The error for a path or pattern that nothing matches: it tells what stands where the first part
// that is not plain was looked for.
Error nothing_matches(FileSystem& files, const std::string& pattern);

// Gives all files in `folder` and below, sorted by path; folders themselves are not among them, and
// neither are files that are still being written. Throws what listing throws, and InvalidArgument
// for what has a name that is none in a folder of a disk, as ".." and ".",
// and Corrupt beyond the limits.
std::vector<FoundPath> files_below(FileSystem& files, const std::string& folder,
                                   const WalkLimits& limits = {});

}  // namespace muster::inline v0_1
