#include "muster/data/internal/csv_table.h"

#include <algorithm>

#include "muster/base/nearest.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1::data::internal {
namespace {

constexpr size_t kMost = 60;  // bytes of a field in a message

std::vector<std::string> copy_of(std::span<const std::string_view> fields) {
  return {fields.begin(), fields.end()};
}

// Throws Corrupt when a name occurs twice.
void index_names(CsvTable* table) {
  for (size_t i = 0; i < table->names.size(); ++i) {
    const auto [before, added] = table->indices.emplace(table->names[i], i);
    if (added) continue;
    throw corrupt(fmt::format("{}: columns {} and {} are both called {}", table->reader.name(),
                              before->second, i, shown(table->names[i])),
                  "name the columns in column_names, in the order of the file");
  }
}

}  // namespace

formats::NumberMarks marks_of(const CsvOptions& options) {
  const auto refuse = [](const std::string& what, const char* hint) {
    throw invalid_argument("CsvOptions: " + what, hint);
  };
  const char decimal = options.decimal, thousands = options.thousands;
  if (decimal != '.' && decimal != ',')
    refuse(fmt::format("decimal is {}", shown({&decimal, 1})), "it is '.' or ','");
  const bool mark = std::string_view("., '_\0", 6).find(thousands) != std::string_view::npos;
  if (!mark || thousands == decimal) {
    refuse(fmt::format("thousands is {}, and decimal {}", shown({&thousands, 1}),
                       shown({&decimal, 1})),
           "it is one of . , ' _ and a blank, and not that of the fraction; 0 is none");
  }
  return {decimal, thousands};
}

std::string shown(std::string_view field) {
  return fmt::format("'{}'", printable_beginning(field, kMost));
}

size_t CsvTable::index_of(const std::string& name) const {
  const auto found = indices.find(name);
  if (found != indices.end()) return found->second;
  const std::optional<std::string> near = nearest(name, names);
  std::vector<std::string> there;
  for (const std::string& other : names) there.push_back(printable_beginning(other, kMost));
  throw not_found(
      fmt::format("{} has no column '{}'; it has {}", reader.name(), name, join_quoted(there, 50)),
      near ? fmt::format("did you mean '{}'?", printable(*near))
           : "name one of those, or the columns of a file without a header in "
             "column_names");
}

std::string CsvTable::where() {
  return fmt::format("{}:{}", reader.name(), reader.row_line().value());
}

bool CsvTable::next() {
  if (!reader.next().value()) return false;
  const size_t fields = reader.fields().size();
  if (fields == names.size()) return true;
  const std::string row = shown(reader.text());
  throw corrupt(fmt::format("{}: the row has {} fields, the file has {} columns: {}", where(),
                            fields, names.size(), row),
                "correct the row; a field with a delimiter in it needs quotes around it");
}

CsvTable open_csv(FileSystem& files, const std::string& path, const CsvOptions& options) {
  auto stream = formats::InputStream::open(files, path, options.compression).value();
  CsvTable table{formats::CsvReader::open(std::move(stream), {.delimiter = options.delimiter,
                                                              .use_quotes = options.use_quotes})
                     .value(),
                 options.column_names,
                 {}};
  formats::CsvReader& reader = table.reader;
  if (options.header) {
    if (!reader.next().value()) {
      table.empty = true;
      return table;
    }
    const std::vector<std::string> header = copy_of(reader.fields());
    if (table.names.empty()) {
      table.names = header;
    } else if (table.names.size() != header.size()) {
      throw invalid_argument(fmt::format("{} has {} columns, column_names has {}", path,
                                         header.size(), table.names.size()),
                             "name every column of the file, in its order");
    }
  } else if (table.names.empty()) {
    const uint64_t begin = reader.offset();
    const bool any = reader.next().value();
    if (!any) {
      table.empty = true;
      return table;
    }
    for (size_t i = 0; i < reader.fields().size(); ++i) table.names.push_back(std::to_string(i));
    reader.seek(begin).value();
  }
  index_names(&table);
  return table;
}

MissingValues::MissingValues(const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    const std::string trimmed(trim(text));
    if (trimmed.empty()) {
      empty_ = true;
      continue;
    }
    begins_[static_cast<unsigned char>(trimmed.front())] = true;
    texts_.push_back(trimmed);
  }
}

bool MissingValues::is_one(std::string_view field) const {
  while (is_blank(field.back())) field.remove_suffix(1);
  return std::find(texts_.begin(), texts_.end(), field) != texts_.end();
}

}  // namespace muster::inline v0_1::data::internal
