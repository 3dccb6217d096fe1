// Sorted tables, the file format of LevelDB in which TensorFlow keeps the index of a checkpoint:
// keys in ascending order with their values, in blocks that each carry a checksum.
// Source of the format: LevelDB's doc/table_format.md. Thread safety: pure functions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "muster/base/bytes.h"

namespace muster::inline v0_1::tensorflow::internal {

// A key and its value, both any bytes.
using TableEntry = std::pair<std::string, std::string>;

// Returns all entries of a table, whose keys ascend. `name` is the file's name in errors. Throws
// Corrupt for a file that is cut short, damaged (each block's checksum is verified) or no table at
// all, and InvalidArgument for compressed blocks, which TensorFlow does not write.
std::vector<TableEntry> read_sorted_table(Bytes file, const std::string& name);

// Makes a table. REQUIRES: the keys ascend strictly.
std::string write_sorted_table(const std::vector<TableEntry>& entries);

}  // namespace muster::inline v0_1::tensorflow::internal
