#include "apps/train/table_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/formats/input_stream.h"
#include "muster/formats/number_text.h"
#include "muster/stores/file_systems.h"

namespace muster::app {
namespace {

// What stands for a missing value, in small letters.
constexpr std::array<std::string_view, 9> kMissing = {"?",    "na",   "n/a", "nan", "null",
                                                      "none", "#n/a", "-",   "<na>"};

formats::CsvReader open(const std::string& path, char delimiter) {
  auto stream = formats::InputStream::open(stores::file_systems(), path).value();
  return formats::CsvReader::open(std::move(stream), {.delimiter = delimiter}).value();
}

// How many fields the first rows have, where all have the same number; else 0.
size_t fields_by(const std::string& path, char delimiter) {
  constexpr int kRows = 20;
  formats::CsvReader reader = open(path, delimiter);
  size_t fields = 0;
  for (int i = 0; i < kRows; ++i) {
    const Result<bool> read = reader.next();
    if (!read.ok()) return 0;
    if (!read.value()) break;
    if (i > 0 && reader.fields().size() != fields) return 0;
    fields = reader.fields().size();
  }
  return fields;
}

char delimiter_of(const std::string& path, char asked) {
  if (asked != 0) return asked;
  char best = ',';
  size_t most = 1;
  for (const char delimiter : {',', ';', '\t', '|'}) {
    const size_t fields = fields_by(path, delimiter);
    if (fields > most) {
      most = fields;
      best = delimiter;
    }
  }
  return best;
}

}  // namespace

TableFile::TableFile(const std::string& path, const TableFormat& format)
    : path_(path),
      delimiter_(delimiter_of(path, format.delimiter)),
      reader_(open(path, delimiter_)) {
  if (!reader_.next().value())
    throw corrupt(path + " is empty", "the first row of a table names its columns");
  std::set<std::string> different;
  for (size_t i = 0; i < reader_.fields().size(); ++i) {
    std::string name = format.header ? std::string(trim(reader_.fields()[i])) : std::to_string(i);
    if (name.empty()) name = fmt::format("(column {})", i + 1);
    if (!different.insert(name).second) {
      throw invalid_argument(fmt::format("{} has two columns called '{}'", path, printable(name)),
                             "give each a name of its own");
    }
    if (!is_utf8(name)) {
      throw invalid_argument(
          fmt::format("{}: the name of column {}, '{}', is no UTF-8", path, i + 1, printable(name)),
          "save the file as UTF-8");
    }
    names_.push_back(std::move(name));
  }
  first_is_row_ = !format.header;
}

std::optional<size_t> TableFile::find(const std::string& name) const {
  const auto found = std::ranges::find(names_, name);
  if (found == names_.end()) return std::nullopt;
  return static_cast<size_t>(found - names_.begin());
}

bool TableFile::next() {
  if (first_is_row_) {
    first_is_row_ = false;
  } else if (!reader_.next().value()) {
    return false;
  }
  ++row_;
  const size_t count = reader_.fields().size();
  if (count == names_.size()) return true;
  throw corrupt(
      fmt::format("{}:{}: the row has {} field{}, and the table {} columns", path_,
                  reader_.row_line().value(), count, count == 1 ? "" : "s", names_.size()),
      "put fields that hold the delimiter into quotes, or name the delimiter: --delimiter");
}

std::string_view TableFile::field(size_t column) const {
  const std::string_view text = trim(reader_.fields()[column]);
  constexpr size_t kLongest = 4;
  if (text.size() > kLongest) return text;
  const std::string small = to_lower(text);
  return std::ranges::find(kMissing, small) != kMissing.end() ? std::string_view() : text;
}

std::optional<double> number_of(std::string_view text, bool decimal_comma) {
  double number = 0;
  if (formats::parse_number(text, &number))
    return std::isfinite(number) ? std::optional(number) : std::nullopt;
  if (!decimal_comma || text.find('.') != std::string_view::npos) return std::nullopt;
  std::string point(text);
  const size_t comma = point.find(',');
  if (comma == std::string::npos) return std::nullopt;
  point[comma] = '.';
  if (!formats::parse_number(point, &number) || !std::isfinite(number)) return std::nullopt;
  return number;
}

}  // namespace muster::app
