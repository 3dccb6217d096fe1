// Files and folders found by a pattern, on disks and in stores. Thread safety: free functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/file_system.h"

namespace muster::inline v0_1 {

// A file or folder, and the listing's facts about it.
struct FoundPath {
  std::string path{};
  FileInfo info{};
};

// Whether a part of a path holds "*", "?" or "[".
bool has_wildcard(std::string_view pattern);

// Which existing names have priority over their meaning as a pattern.
enum class Literal {
  kBrackets,  // paths that contain the pattern's brackets letter by letter: "run[3]", not "run3"
  kAny,       // these, and names that equal the pattern letter by letter: "a*b", not "axb"
};

// How far folders are followed: a store may name ever more of them.
struct WalkLimits {
  size_t folders = 1'000'000;
  size_t depth = 512;  // folders in folders
  // A long search is logged every ten seconds of this clock.
  Clock* clock = &system_clock();
};

// Returns the paths that match, sorted by path. "*" and "?" match any letters and "[a-c]" matches
// one of several. None of them matches a slash, and as in a shell not for a dot at the beginning. A
// backslash quotes the letter after it, and so does "[*]". If `literal` excludes names that also
// match, the log says so. The root of a URI, such as "s3://bucket", is not a pattern. Files that
// are still being written are left out. Empty if nothing matches; throws Error naming the pattern
// if a folder cannot be listed, and InvalidArgument for a pattern of a store with an empty part
// ("a//*"): its lists hold none. Throws Corrupt beyond the limits.
std::vector<FoundPath> find_paths(FileSystem& files, const std::string& pattern,
                                  Literal literal = Literal::kBrackets,
                                  const WalkLimits& limits = {});

// The error for a path or pattern that nothing matches: it lists the entries of the folder in which
// the first pattern part was looked for.
Error nothing_matches(FileSystem& files, const std::string& pattern);

// Returns all files in `folder` and below, sorted by path; folders themselves are not among them,
// and neither are files that are still being written. Throws the errors of listing, InvalidArgument
// for names that are invalid in a folder of a disk, such as ".." and ".", and Corrupt beyond the
// limits.
std::vector<FoundPath> files_below(FileSystem& files, const std::string& folder,
                                   const WalkLimits& limits = {});

}  // namespace muster::inline v0_1
