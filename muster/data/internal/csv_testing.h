// For tests of CSV: files of a folder, and their contents as read.
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/data/csv.h"

namespace muster::inline v0_1::data {

inline constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

class CsvFiles : public ::testing::Test {
 protected:
  std::string write(const std::string& text, const std::string& name = "a.csv") {
    local_file_system().write_atomically(dir_ / name, text).value();
    return dir_ / name;
  }

  std::unique_ptr<ElementReader> open(const std::string& path, const CsvOptions& options) {
    return csv_format(options)->open(local_file_system(), path);
  }

  // All rows, or those to the first error.
  Element read_all(ElementReader& reader) {
    std::vector<std::vector<Value>> blocks;
    Element block;
    std::shared_ptr<const Structure> structure;
    while (reader.read(7, &block) > 0) {
      blocks.resize(block.values().size());
      for (size_t i = 0; i < blocks.size(); ++i) blocks[i].push_back(block.values()[i]);
      structure = block.shared_structure();
    }
    std::vector<Value> values;
    for (const auto& column : blocks) values.push_back(Value::concatenate(column));
    return Element::make(structure, std::move(values));
  }

  Element read_all(const std::string& path, const CsvOptions& options) {
    return read_all(*open(path, options));
  }

  const TempDirectory dir_;
};

inline std::vector<std::string> texts(const Value& value) {
  std::vector<std::string> result;
  for (int64_t i = 0; i < value.strings().size(); ++i) result.emplace_back(value.strings()[i]);
  return result;
}

}  // namespace muster::inline v0_1::data
