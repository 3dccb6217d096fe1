// Implements `muster ls`, `cp` and `cat`, on disks and in stores. Thread safety: free functions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/bytes.h"
#include "muster/base/file_system.h"

namespace muster::app {

// Returns the output of `muster ls` for paths and patterns: sizes, times and names, or with `json`
// one document. `recursive` lists folders with everything below them. Throws NotFound for a path or
// a pattern that nothing matches.
std::string list_paths(FileSystem& files, const std::vector<std::string>& paths, bool recursive,
                       bool json);

// How far copy_paths() is; in files and bytes.
struct CopyProgress {
  size_t files = 0;
  size_t of_files = 0;
  uint64_t bytes = 0;
  uint64_t of_bytes = 0;  // according to the listing
};

// Copies files, patterns and, with `recursive`, folders to `to`: into it if it is a folder, ends
// with a slash, or if several files are copied; else under that name. Several files are under way
// at a time, each with a buffer of 8 MiB. Each appears whole or not at all, and replaces an
// existing file. `progress` is called from any thread, one at a time. Throws Error: nothing is
// copied if a path does not exist. If a file fails, the finished ones stay, and the error says how
// many.
CopyProgress copy_paths(FileSystem& files, const std::vector<std::string>& from,
                        const std::string& to, bool recursive,
                        const std::function<void(const CopyProgress&)>& progress = {});

// Gives `take` the bytes of all files, in order, from `offset` on and at most `count` of each.
// Throws Error.
void read_paths(FileSystem& files, const std::vector<std::string>& paths, uint64_t offset,
                std::optional<uint64_t> count, const std::function<void(Bytes)>& take);

}  // namespace muster::app
