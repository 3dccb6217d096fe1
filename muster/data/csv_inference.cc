// infer_csv(): the kinds of columns from the first rows of a file.
#include <algorithm>
#include <cmath>

#include "muster/base/log.h"
#include "muster/data/csv.h"
#include "muster/data/internal/csv_table.h"
#include "muster/formats/number_text.h"
#include "muster/stores/file_systems.h"

namespace muster::inline v0_1::data {
namespace {

// What was seen of a column.
struct Seen {
  size_t field = 0;
  bool any = false;
  bool missing = false;
  bool whole = true;    // all values are int64
  bool numbers = true;  // all values are numbers
  int64_t values = 0;   // that are not missing
  int64_t texts = 0;    // of these, no numbers
  bool identifiers = false;
  std::string first_text;
};

// Digits alone: an identifier too long for int64, of which a float would drop the end.
bool is_long_identifier(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

void look_at(std::string_view field, Seen* seen) {
  int64_t integer = 0;
  float number = 0;
  seen->any = true;
  ++seen->values;
  if (formats::parse_number(field, &integer)) return;
  seen->whole = false;
  const bool is_identifier = is_long_identifier(field);
  if (!is_identifier && formats::parse_number(field, &number)) return;
  seen->numbers = false;
  if (is_identifier) seen->identifiers = true;
  if (seen->texts++ == 0) seen->first_text = field;
}

CsvColumn column_of(const std::string& name, const Seen& seen, bool is_label,
                    const std::optional<double>& missing_number) {
  if (!seen.any || !seen.numbers) {
    CsvColumn texts{.name = name, .kind = CsvKind::kString};
    if (!is_label) texts.missing = std::string();
    return texts;
  }
  CsvColumn column{.name = name, .kind = seen.whole ? CsvKind::kInt64 : CsvKind::kFloat32};
  if (is_label || !missing_number) return column;
  constexpr double kMostWhole = 9007199254740992.0;  // 2^53
  const bool whole_default =
      *missing_number == std::floor(*missing_number) && std::abs(*missing_number) <= kMostWhole;
  if (seen.whole && whole_default) {
    column.missing = static_cast<int64_t>(*missing_number);
  } else if (!seen.whole || seen.missing) {
    column.kind = CsvKind::kFloat32;
    column.missing = *missing_number;
  }
  return column;
}

// A few texts among numbers are more likely slips of a pen than a column of texts.
void warn_of_slips(const std::string& name, const Seen& seen) {
  constexpr int64_t kFew = 20;  // one in so many
  if (seen.numbers || seen.identifiers || seen.texts * kFew > seen.values) return;
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
  if (options.infer_rows < 1) {
    throw invalid_argument(fmt::format("infer_csv got infer_rows = {}", options.infer_rows),
                           "let it look at one row at least");
  }
  formats::check_dialect({.delimiter = options.delimiter}).value();
  internal::CsvTable table = internal::open_csv(stores::file_systems(), path, options);
  const internal::MissingValues missing(options.na_values);
  std::vector<Seen> columns;
  for (const size_t field : selected(table, options)) columns.push_back({.field = field});
  bool any = false;
  for (int64_t row = 0; row < options.infer_rows && table.next(); ++row) {
    any = true;
    for (Seen& seen : columns) {
      const std::string_view field = table.reader.fields()[seen.field];
      if (missing.contains(field)) {
        seen.missing = true;
      } else {
        look_at(field, &seen);
      }
    }
  }
  const auto is_given = [&](const Seen& seen) {
    return std::any_of(
        options.columns.begin(), options.columns.end(),
        [&](const CsvColumn& column) { return column.name == table.names[seen.field]; });
  };
  if (!any && (columns.empty() || !std::all_of(columns.begin(), columns.end(), is_given))) {
    throw invalid_argument(
        fmt::format("{} has no rows to infer the kinds of its columns from", path),
        "list the columns with their kinds in columns");
  }
  std::vector<CsvColumn> complete;
  for (const Seen& seen : columns) {
    const std::string& name = table.names[seen.field];
    const auto given = std::find_if(options.columns.begin(), options.columns.end(),
                                    [&](const CsvColumn& column) { return column.name == name; });
    if (given == options.columns.end()) warn_of_slips(name, seen);
    complete.push_back(given != options.columns.end()
                           ? *given
                           : column_of(name, seen, name == options.label, options.missing_number));
  }
  options.columns = std::move(complete);
  return options;
}

}  // namespace muster::inline v0_1::data
