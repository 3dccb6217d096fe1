// Reads the words of a vocabulary from a file, for every part of Muster that takes one. Thread
// safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/base/result.h"

namespace muster::inline v0_1::formats {

// Returns the lines of a file, at most the first `most`: a word's id is the number of its line,
// from 0, as in tf.lookup.TextFileInitializer. Lines end with \n or \r\n, and a byte-order mark in
// front of the first is not part of it. A line that is blank keeps its id, and a warning names it.
// Returns NotFound if there is no file; InvalidArgument, naming both lines (from 1), for a word
// that occurs twice, for two blank lines and for a \r within a line; InvalidArgument for UTF-16.
MUSTER_PART_EXPORT Result<std::vector<std::string>> read_vocabulary_file(
    FileSystem& files, const std::string& path, std::optional<int64_t> most = {});

}  // namespace muster::inline v0_1::formats
