// A CSV file from any source: determines the separator of its fields, and reads them as trimmed
// texts. Thread safety: one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/formats/csv.h"

namespace muster::app {

struct TableFormat {
  // 0: the delimiter that a first line "sep=;" names, or the one of , ; tab | that divides the
  // first rows best.
  char delimiter = 0;
  bool header = true;  // false: the columns are called "0", "1", ...
  bool quotes = true;  // false: a quote is a letter like others
};

class TableFile {
 public:
  // Throws NotFound for a missing file, Corrupt for one that is empty or no text, and
  // InvalidArgument for two columns of one name. A column without a name is "(column 3)".
  TableFile(const std::string& path, const TableFormat& format);

  const std::string& path() const { return path_; }
  // The delimiter in force.
  char delimiter() const { return delimiter_; }
  const std::vector<std::string>& names() const { return names_; }
  // The place of a column; nothing when there is none.
  std::optional<size_t> find(const std::string& name) const;

  // Reads the next row; false at the end. Throws Corrupt, naming the line, for a row with another
  // number of fields.
  bool next();
  // The number of the last row, from 0.
  int64_t row() const { return row_; }
  // A field of the last row without the blanks around it.
  std::string_view field(size_t column) const;

 private:
  std::string path_;
  char delimiter_;
  formats::CsvReader reader_;
  std::vector<std::string> names_;
  bool first_is_row_ = false;
  int64_t row_ = -1;
};

}  // namespace muster::app
