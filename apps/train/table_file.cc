#include "apps/train/table_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/files/file_systems.h"
#include "muster/formats/input_stream.h"
#include "muster/formats/written_number.h"

namespace muster::app {
namespace {

formats::CsvReader open(const std::string& path, char delimiter, bool quotes) {
  auto stream = formats::InputStream::open(file_systems(), path).value();
  return formats::CsvReader::open(
             std::move(stream),
             {.delimiter = delimiter, .use_quotes = quotes, .quotes_off = "give --quotes=false"})
      .value();
}

// The first rows, divided by one candidate.
struct Division {
  size_t fields = 0;  // of each row; 0 if they have different numbers of them
  size_t commas = 0;  // fields that are numbers with a decimal comma
};

Division divided_by(const std::string& path, char delimiter, bool quotes) {
  constexpr int kRows = 20;
  formats::CsvReader reader = open(path, delimiter, quotes);
  Division division;
  for (int i = 0; i < kRows; ++i) {
    const Result<bool> read = reader.next();
    if (!read.ok()) return {};
    if (!read.value()) break;
    if (i > 0 && reader.fields().size() != division.fields) return {};
    division.fields = reader.fields().size();
    for (const std::string_view field : reader.fields()) {
      if (field.find(',') == std::string_view::npos) continue;
      const auto number = formats::WrittenNumber::read(field);
      if (number && number->value(true)) ++division.commas;
    }
  }
  return division;
}

// The delimiter that a first line "sep=;" names, as Excel reads and writes it.
std::optional<char> named_delimiter(const std::string& path, bool quotes) {
  constexpr std::string_view kNames = "sep=";
  formats::CsvReader reader = open(path, ',', quotes);
  const Result<bool> read = reader.next();
  if (!read.ok() || !read.value()) return std::nullopt;
  const auto& fields = reader.fields();
  if (fields.size() == 2 && fields[0] == kNames && fields[1].empty()) return ',';
  if (fields.size() != 1 || fields[0].size() != kNames.size() + 1 || !fields[0].starts_with(kNames))
    return std::nullopt;
  const char named = fields[0].back();
  return std::string_view(";\t|:").find(named) != std::string_view::npos
             ? std::optional<char>(named)
             : std::nullopt;
}

char delimiter_of(const std::string& path, const TableFormat& format) {
  if (format.delimiter != 0) return format.delimiter;
  if (const auto named = named_delimiter(path, format.quotes)) return *named;
  char best = ',';
  size_t most = 1;
  bool has_commas = false;
  for (const char delimiter : {';', '\t', '|', ','}) {
    // Where others divide numbers with a decimal comma from each other, a comma divides nothing.
    if (delimiter == ',' && has_commas) break;
    const Division division = divided_by(path, delimiter, format.quotes);
    if (division.fields > 1 && division.commas > 0) has_commas = true;
    if (division.fields > most || (delimiter == ',' && division.fields == most)) {
      most = division.fields;
      best = delimiter;
    }
  }
  return best;
}

}  // namespace

TableFile::TableFile(const std::string& path, const TableFormat& format)
    : path_(path),
      delimiter_(delimiter_of(path, format)),
      reader_(open(path, delimiter_, format.quotes)) {
  if (named_delimiter(path, format.quotes) == delimiter_) reader_.next().value();
  if (!reader_.next().value())
    throw corrupt(path + " is empty", "the first row of a table names its columns");
  std::set<std::string> different;
  for (size_t i = 0; i < reader_.fields().size(); ++i) {
    std::string name = format.header ? std::string(formats::trim_all_blanks(reader_.fields()[i]))
                                     : std::to_string(i);
    if (name.empty()) name = fmt::format("(column {})", i + 1);
    if (!different.insert(name).second) {
      throw invalid_argument(fmt::format("{} has two columns called '{}'", path, printable(name)),
                             parse_double(name)
                                 ? "where the first row is not a row of names: --header=false"
                                 : "give each a different name");
    }
    if (!is_utf8(name)) {
      throw invalid_argument(fmt::format("{}: the name of column {}, '{}', is not UTF-8", path,
                                         i + 1, printable(name)),
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
  const auto& fields = reader_.fields();
  const size_t count = fields.size();
  if (count == names_.size()) return true;
  const char* hint =
      "put fields that hold the delimiter into quotes, or name the delimiter: --delimiter";
  const auto has_return = [](std::string_view field) {
    return field.find('\r') != std::string_view::npos;
  };
  if (std::ranges::any_of(fields, has_return)) {
    hint =
        "the row holds \\r, which ends some lines and not this one: save the file with line "
        "ends of one kind";
  } else if (count == names_.size() + 1 && fields.back().empty()) {
    hint = "the row ends with a delimiter, and the first row does not: let both do, or neither";
  }
  throw corrupt(
      fmt::format("{}:{}: the row has {} field{}, and the table {} columns", path_,
                  reader_.row_line().value(), count, count == 1 ? "" : "s", names_.size()),
      hint);
}

std::string_view TableFile::field(size_t column) const {
  return formats::trim_all_blanks(reader_.fields()[column]);
}

}  // namespace muster::app
