// The part that readers of CSV files share: an open file with the names of its columns, and its
// missing values. Thread safety: as formats::CsvReader.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/data/csv.h"
#include "muster/formats/csv.h"
#include "muster/formats/number_text.h"
#include "muster/formats/written_number.h"

namespace muster::inline v0_1::data::internal {

// A file, in front of its first row, and the names of its columns.
struct CsvTable {
  formats::CsvReader reader;
  std::vector<std::string> names;
  std::unordered_map<std::string, size_t> indices;  // of the names
  bool empty = false;  // there is no byte of text in it, and so no header and no row

  // The index of the column `name`. Throws NotFound listing the columns there are.
  size_t index_of(const std::string& name) const;
  // Reads the next row; false at the end. Throws Corrupt when it is damaged or has another number
  // of fields than the file has columns.
  bool next();
  // "data.csv:12", of the last row. Invalidates the result of fields().
  std::string where();
};

// Throws as csv_format() says of opening a file.
CsvTable open_csv(FileSystem& files, const std::string& path, const CsvOptions& options);

// Tells missing values from others.
class MissingValues {
 public:
  explicit MissingValues(const std::vector<std::string>& texts);

  bool contains(std::string_view field) const {
    while (!field.empty() && is_blank(field.front())) field.remove_prefix(1);
    if (field.empty()) return empty_;
    return begins_[static_cast<unsigned char>(field.front())] && is_one(field);
  }

 private:
  static bool is_blank(char letter) { return letter == ' ' || letter == '\t'; }
  bool is_one(std::string_view field) const;

  std::vector<std::string> texts_;
  bool empty_ = false;
  std::array<bool, 256> begins_{};  // the first letters of the texts: most fields have another
};

// Throws InvalidArgument for marks that cannot be.
formats::NumberMarks marks_of(const CsvOptions& options);

// Reads a field as a number with these marks; false if it is none.
template <typename Number>
bool read_number(std::string_view field, const formats::NumberMarks& marks, Number* number) {
  if (marks == formats::NumberMarks()) [[likely]]
    return formats::parse_number(field, number);
  std::string plain;
  return formats::to_plain_number(field, marks, &plain) && formats::parse_number(plain, number);
}

// A field in a message, in quotes; the beginning of a long one. Control bytes are numbers there.
std::string shown(std::string_view field);

}  // namespace muster::inline v0_1::data::internal
