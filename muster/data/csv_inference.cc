// infer_csv(): the kinds of columns from the first rows of files.
#include <algorithm>
#include <cmath>

#include "muster/base/float_fit.h"
#include "muster/base/log.h"
#include "muster/data/csv.h"
#include "muster/data/internal/csv_table.h"
#include "muster/files/file_systems.h"

namespace muster::inline v0_1::data {
namespace {

// Facts about a column.
struct Seen {
  size_t field = 0;
  bool any = false;
  bool missing = false;
  bool whole = true;     // all values are int64
  bool numbers = true;   // all values are numbers
  int64_t values = 0;    // that are not missing
  int64_t texts = 0;     // of these, no numbers
  bool one_text = true;  // all of these are the same
  bool identifiers = false;
  FloatFit fit;
  bool fits_double = true;
  // Texts that are numbers with other marks.
  int64_t written = 0, with_point = 0, with_comma = 0;
  std::string first_text{};
};

// This many texts of a column are enough to determine their marks.
constexpr int64_t kMostTexts = 1000;

// Digits alone: an identifier too long for int64, of which a float would drop the end.
bool is_long_identifier(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

void look_at(std::string_view field, const formats::NumberMarks& marks, Seen* seen) {
  int64_t integer = 0;
  double number = 0;
  seen->any = true;
  ++seen->values;
  if (internal::read_number(field, marks, &integer)) {
    number = static_cast<double>(integer);
    constexpr int64_t kMostExact = int64_t{1} << 53;
    if (integer > kMostExact || integer < -kMostExact) seen->fits_double = false;
    return seen->fit.add(number);
  }
  seen->whole = false;
  const bool is_identifier = is_long_identifier(field);
  if (!is_identifier && internal::read_number(field, marks, &number)) return seen->fit.add(number);
  seen->numbers = false;
  if (is_identifier) seen->identifiers = true;
  if (seen->texts++ == 0) seen->first_text = field;
  if (field != seen->first_text) seen->one_text = false;
  if (seen->texts > kMostTexts) return;
  if (const auto written = formats::WrittenNumber::read(field)) {
    ++seen->written;
    seen->with_point += written->value(false) ? 1 : 0;
    seen->with_comma += written->value(true) && written->unit().empty() ? 1 : 0;
  }
}

CsvColumn column_of(const std::string& name, const Seen& seen, bool is_label,
                    const std::optional<double>& missing_number) {
  if (!seen.any || !seen.numbers) {
    CsvColumn texts{.name = name, .kind = CsvKind::kString};
    if (!is_label) texts.missing = std::string();
    return texts;
  }
  const CsvKind fraction = seen.fit.fits() ? CsvKind::kFloat32 : CsvKind::kFloat64;
  CsvColumn column{.name = name, .kind = seen.whole ? CsvKind::kInt64 : fraction};
  if (is_label || !missing_number) return column;
  constexpr double kMostWhole = 9007199254740992.0;  // 2^53
  const bool whole_default =
      *missing_number == std::floor(*missing_number) && std::abs(*missing_number) <= kMostWhole;
  if (seen.whole && whole_default) {
    column.missing = static_cast<int64_t>(*missing_number);
  } else if (!seen.whole || (seen.missing && seen.fits_double)) {
    column.kind = fraction;
    column.missing = *missing_number;
  }
  return column;
}

// Warns of texts that are numbers if their marks are known.
void warn_of_marks(const std::string& name, const Seen& seen, const formats::NumberMarks& marks) {
  const int64_t looked_at = std::min(seen.texts, kMostTexts);
  // A few texts among numbers are slips.
  if (seen.numbers || seen.identifiers || seen.texts < 2 || seen.texts * 10 < seen.values ||
      seen.written * 20 < looked_at * 19)
    return;
  const bool comma = marks.decimal == '.' && seen.with_comma * 20 >= looked_at * 19;
  log::warning(fmt::format(
      "input: column {} is read as texts, though they look like numbers: {}. {}",
      internal::shown(name), internal::shown(seen.first_text),
      comma ? "With a decimal comma set CsvOptions::decimal = ',' (and thousands = '.')"
            : "Say what their marks are in CsvOptions::decimal and thousands; signs and units "
              "beside them are for a map()"));
}

// A few texts among numbers are more likely typing errors than a column of texts, and one repeated
// word among them, such as NA, is more likely a missing value.
void warn_of_slips(const std::string& name, const Seen& seen) {
  constexpr int64_t kFew = 20;  // one in this many
  const bool few = seen.texts * kFew <= seen.values;
  const bool one_word = seen.one_text && seen.texts > 1 && seen.texts < seen.values;
  if (seen.numbers || seen.identifiers || (!few && !one_word)) return;
  log::warning(fmt::format(
      "input: column {} is read as texts, since {} of its first {} values {} no number: {}. If "
      "that is a slip, correct it; if it stands for a missing value, add it to na_values; else "
      "list the column with its kind",
      internal::shown(name), seen.texts, seen.values, seen.texts == 1 ? "is" : "are",
      internal::shown(seen.first_text)));
}

// The indices of the columns to look at, in the order of the file.
std::vector<size_t> selected(const internal::CsvTable& table, const CsvOptions& options) {
  std::vector<bool> wanted(table.names.size(), options.select_columns.empty());
  for (const auto& column : options.select_columns) {
    if (const auto* name = std::get_if<std::string>(&column)) {
      wanted[table.index_of(*name)] = true;
      continue;
    }
    const int64_t index = std::get<int64_t>(column);
    if (index < 0 || index >= static_cast<int64_t>(wanted.size())) {
      throw not_found(fmt::format("{} has no column {}; it has {}, counted from 0",
                                  table.reader.name(), index, wanted.size()),
                      "select columns the file has");
    }
    wanted[static_cast<size_t>(index)] = true;
  }
  if (!options.label.empty()) wanted[table.index_of(options.label)] = true;
  for (const CsvColumn& column : options.columns) wanted[table.index_of(column.name)] = true;
  std::vector<size_t> indices;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i]) indices.push_back(i);
  }
  return indices;
}

}  // namespace

CsvOptions infer_csv(const std::string& path, CsvOptions options) {
  return infer_csv(std::vector<std::string>{path}, std::move(options));
}

CsvOptions infer_csv(const std::vector<std::string>& files, CsvOptions options) {
  if (files.empty()) {
    throw invalid_argument("infer_csv got no files",
                           "name one at least, or match some: list_files()");
  }
  if (options.infer_rows && *options.infer_rows < 1) {
    throw invalid_argument(fmt::format("infer_csv got infer_rows = {}", *options.infer_rows),
                           "let it look at one row at least");
  }
  formats::check_dialect({.delimiter = options.delimiter}).value();
  const formats::NumberMarks marks = internal::marks_of(options);
  const internal::MissingValues missing(options.na_values);
  std::vector<std::string> names;  // of the columns that are looked at
  std::vector<Seen> columns;
  int64_t rows = 0;
  uint64_t bytes = 0;  // of files that were read to the end
  const auto enough = [&](uint64_t more) {
    constexpr int64_t kLeastRows = 1000;
    constexpr uint64_t kMostBytes = uint64_t{16} << 20;
    return options.infer_rows ? rows >= *options.infer_rows
                              : rows >= kLeastRows && bytes + more >= kMostBytes;
  };
  for (const std::string& path : files) {
    if (enough(0)) break;
    internal::CsvTable table = internal::open_csv(file_systems(), path, options);
    if (table.empty) continue;
    if (names.empty()) {
      for (const size_t field : selected(table, options)) {
        names.push_back(table.names[field]);
        columns.emplace_back();
      }
    }
    for (size_t i = 0; i < names.size(); ++i) columns[i].field = table.index_of(names[i]);
    while (!enough(table.reader.offset()) && table.next()) {
      ++rows;
      for (Seen& seen : columns) {
        const std::string_view field = table.reader.fields()[seen.field];
        if (missing.contains(field)) {
          seen.missing = true;
        } else {
          look_at(field, marks, &seen);
        }
      }
    }
    bytes += table.reader.offset();
  }
  const auto given = [&](const std::string& name) {
    return std::ranges::find(options.columns, name, &CsvColumn::name);
  };
  const std::string which =
      files.size() == 1 ? files.front() : fmt::format("none of {} files", files.size());
  if (names.empty()) {
    throw corrupt(files.size() == 1 ? fmt::format("{} is empty: it has no header", which)
                                    : fmt::format("{} has a header: all are empty", which),
                  "name the columns in the first row of a file, or set header = false");
  }
  if (rows == 0 && !std::ranges::all_of(names, [&](const std::string& name) {
        return given(name) != options.columns.end();
      })) {
    throw invalid_argument(
        files.size() == 1
            ? fmt::format("{} has no rows to infer the kinds of its columns from", which)
            : fmt::format("{} has rows to infer the kinds of their columns from", which),
        "list the columns with their kinds in columns");
  }
  std::vector<CsvColumn> complete;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto said = given(names[i]);
    if (said != options.columns.end()) {
      complete.push_back(*said);
      continue;
    }
    warn_of_slips(names[i], columns[i]);
    warn_of_marks(names[i], columns[i], marks);
    complete.push_back(
        column_of(names[i], columns[i], names[i] == options.label, options.missing_number));
  }
  options.columns = std::move(complete);
  return options;
}

}  // namespace muster::inline v0_1::data
