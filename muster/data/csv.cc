#include "muster/data/csv.h"

#include <atomic>
#include <cmath>
#include <set>

#include "muster/base/float_fit.h"
#include "muster/base/log.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/data/internal/csv_table.h"
#include "muster/data/internal/row_reader.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data {
namespace {

using internal::CsvTable;
using internal::MissingValues;
using internal::shown;

DType dtype_of(CsvKind kind) {
  return kind == CsvKind::kFloat32   ? at::kFloat
         : kind == CsvKind::kFloat64 ? at::kDouble
                                     : at::kLong;
}

// A column while rows are read into it.
struct Target {
  CsvColumn column;
  size_t field = 0;   // of a row
  double number = 0;  // what a missing value becomes, by kind
  int64_t integer = 0;
  std::string text{};
  bool told = false;  // that float32 rounds its numbers

  Tensor tensor{};
  void* data = nullptr;
  std::vector<int64_t> offsets{};
  std::string bytes{};

  template <typename Number>
  Number& at(int64_t row) {
    return static_cast<Number*>(data)[row];
  }
};

// As it is written in a program.
std::string enumerator_of(CsvKind kind) {
  switch (kind) {
    case CsvKind::kFloat32:
      return "CsvKind::kFloat32";
    case CsvKind::kFloat64:
      return "CsvKind::kFloat64";
    case CsvKind::kInt64:
      return "CsvKind::kInt64";
    case CsvKind::kString:
      return "CsvKind::kString";
  }
  return "...";
}

// A default of this kind, as it is written in a program.
std::string example_default(CsvKind kind) {
  return kind == CsvKind::kString  ? "std::string()"
         : kind == CsvKind::kInt64 ? "int64_t{0}"
                                   : "0.0";
}

// Throws InvalidArgument when the default is of another kind than the column.
void check_default(const CsvColumn& column) {
  if (!column.missing) return;
  const bool is_text = std::holds_alternative<std::string>(*column.missing);
  const bool is_fraction = std::holds_alternative<double>(*column.missing);
  const bool fits = column.kind == CsvKind::kString  ? is_text
                    : column.kind == CsvKind::kInt64 ? !is_text && !is_fraction
                                                     : !is_text;
  if (fits) return;
  throw invalid_argument(fmt::format("column '{}' of kind {} has {} for missing values",
                                     column.name, to_string(column.kind),
                                     is_text       ? "a text"
                                     : is_fraction ? "a fraction"
                                                   : "a number"),
                         column.kind == CsvKind::kInt64
                             ? "give a whole number, or read the column as kFloat32"
                             : "give a default of the kind of the column");
}

void check_options(const CsvOptions& options) {
  formats::check_dialect({.delimiter = options.delimiter}).value();
  (void)internal::marks_of(options);
  if (options.columns.empty()) {
    throw invalid_argument("csv_format got no columns to read",
                           "list them in columns, or let infer_csv() look at a file");
  }
  std::set<std::string> names;
  for (const CsvColumn& column : options.columns) {
    if (!names.insert(column.name).second) {
      throw invalid_argument(fmt::format("csv_format got the column '{}' twice", column.name),
                             "list every column once");
    }
    check_default(column);
  }
  if (options.label.empty()) return;
  if (!names.contains(options.label)) {
    throw invalid_argument(fmt::format("the label '{}' is not among the columns {}", options.label,
                                       join_quoted({names.begin(), names.end()})),
                           "add it to columns");
  }
  if (names.size() == 1) {
    throw invalid_argument(
        fmt::format("the label '{}' is the only column: no features are left", options.label),
        "add the features to columns");
  }
}

// Columns of this many rows stay in the cache while they are filled; of wide files fewer.
constexpr int64_t kMostRows = 1024;
constexpr size_t kMostValues = size_t{1} << 20;

int64_t rows_at_once(size_t columns) {
  return std::clamp<int64_t>(static_cast<int64_t>(kMostValues / columns), 1, kMostRows);
}

class CsvRows final : public internal::RowReader {
 public:
  CsvRows(CsvTable table, const CsvOptions& options)
      : RowReader(rows_at_once(options.columns.size())),
        table_(std::move(table)),
        missing_(options.na_values),
        marks_(internal::marks_of(options)) {
    // In the order of the leaves: features by name, the label last.
    std::vector<CsvColumn> columns = options.columns;
    std::sort(columns.begin(), columns.end(), [&](const CsvColumn& a, const CsvColumn& b) {
      const bool a_last = a.name == options.label, b_last = b.name == options.label;
      return a_last != b_last ? b_last : a.name < b.name;
    });
    Structure features{.kind = Structure::Kind::kDict};
    for (const CsvColumn& column : columns) {
      Target target{.column = column};
      if (!table_.empty) target.field = table_.index_of(column.name);
      if (column.missing) set_default(*column.missing, &target);
      targets_.push_back(std::move(target));
      if (!options.label.empty() && column.name == options.label) continue;
      features.keys.push_back(column.name);
      features.children.emplace_back();
    }
    Structure structure = std::move(features);
    if (!options.label.empty()) {
      structure = {.kind = Structure::Kind::kTuple,
                   .children = {std::move(structure), Structure{}}};
    }
    structure_ = std::make_shared<const Structure>(std::move(structure));
  }

 private:
  bool read_row(int64_t at) override {
    if (table_.empty || !table_.next()) return false;
    const auto fields = table_.reader.fields();
    for (Target& target : targets_) {
      if (!read_field(fields[target.field], at, target)) throw refused(target);
    }
    return true;
  }

  Result<bool> pass_row() override { return table_.reader.next(); }
  uint64_t row_offset() const override { return table_.reader.row_offset(); }
  uint64_t offset() const override { return table_.reader.offset(); }
  Status go_to(uint64_t offset) override { return table_.reader.seek(offset); }

  static void set_default(const CsvDefault& missing, Target* target) {
    if (const auto* text = std::get_if<std::string>(&missing)) target->text = *text;
    if (const auto* number = std::get_if<double>(&missing)) target->number = *number;
    if (const auto* integer = std::get_if<int64_t>(&missing)) {
      target->integer = *integer;
      target->number = static_cast<double>(*integer);
    }
  }

  void start(int64_t rows) override {
    for (Target& target : targets_) {
      if (target.column.kind != CsvKind::kString) {
        target.tensor = torch::empty({rows}, dtype_of(target.column.kind));
        target.data = target.tensor.data_ptr();
        continue;
      }
      target.offsets.assign(1, 0);
      target.offsets.reserve(static_cast<size_t>(rows) + 1);
      target.bytes.clear();
    }
  }

  // False when the field is not a value of the column.
  bool read_field(std::string_view field, int64_t row, Target& target) {
    const bool missing = missing_.contains(field);
    if (missing && !target.column.missing) return false;
    switch (target.column.kind) {
      case CsvKind::kFloat32:
        if (!missing) {
          float& number = target.at<float>(row);
          if (!internal::read_number(field, marks_, &number)) return false;
          if (std::abs(number) >= kLargestExactFloat && !target.told) tell_rounded(field, target);
          return true;
        }
        target.at<float>(row) = static_cast<float>(target.number);
        return true;
      case CsvKind::kFloat64:
        if (!missing) return internal::read_number(field, marks_, &target.at<double>(row));
        target.at<double>(row) = target.number;
        return true;
      case CsvKind::kInt64:
        if (!missing) return internal::read_number(field, marks_, &target.at<int64_t>(row));
        target.at<int64_t>(row) = target.integer;
        return true;
      case CsvKind::kString:
        target.bytes += missing ? std::string_view(target.text) : field;
        target.offsets.push_back(static_cast<int64_t>(target.bytes.size()));
        return true;
    }
    return false;
  }

  // Says once of a column that neighbours among its numbers become one.
  void tell_rounded(std::string_view field, Target& target) const {
    double exact = 0;
    if (!internal::read_number(field, marks_, &exact) || !is_lost_in_float(exact)) return;
    target.told = true;
    log::warning_once(
        fmt::format("input: column {} is read as float32, which rounds whole numbers above "
                    "16,777,216, so that different numbers become equal; for identifiers, dates "
                    "and times use CsvKind::kInt64 or kFloat64",
                    shown(target.column.name)));
  }

  Error refused(const Target& target) {
    const CsvColumn& column = target.column;
    const std::string_view field = table_.reader.fields()[target.field];
    const bool missing = missing_.contains(field);
    const std::string value = shown(field);
    const std::string where = fmt::format("{}: column {}", table_.where(), shown(column.name));
    const std::string name = printable(column.name);
    const std::string kind = enumerator_of(column.kind);
    if (missing) {
      return corrupt(
          fmt::format("{}: the value is missing ({}), and the column has no default", where, value),
          fmt::format("give it one in CsvOptions::columns: {{.name = \"{}\", .kind = {}, .missing "
                      "= {}}}; or one to all columns of numbers but the label: "
                      "CsvOptions::missing_number",
                      name, kind, example_default(column.kind)));
    }
    return corrupt(
        fmt::format("{}: {} is not {}", where, value, to_string(column.kind)),
        fmt::format("correct the row; or set the kind of the column in CsvOptions::columns: "
                    "{{.name = \"{}\", .kind = CsvKind::kString}} (otherwise the kind is inferred "
                    "from the first CsvOptions::infer_rows rows: increase that number); or, if the "
                    "text means a missing value, add it to CsvOptions::na_values; numbers such as "
                    "1.234,5 need CsvOptions::decimal and thousands",
                    name));
  }

  Element finish(int64_t done, int64_t room) override {
    std::vector<Value> values;
    for (Target& target : targets_) {
      if (target.column.kind != CsvKind::kString) {
        values.emplace_back(done == room ? std::move(target.tensor)
                                         : target.tensor.narrow(0, 0, done).clone());
        continue;
      }
      // Without what a row that failed has left.
      target.offsets.resize(static_cast<size_t>(done) + 1);
      target.bytes.resize(static_cast<size_t>(target.offsets.back()));
      values.emplace_back(
          Strings({done}, std::exchange(target.offsets, {}), std::exchange(target.bytes, {})));
    }
    return Element::make(structure_, std::move(values));
  }

  CsvTable table_;
  const MissingValues missing_;
  const formats::NumberMarks marks_;
  std::vector<Target> targets_;
  std::shared_ptr<const Structure> structure_;
};

class CsvFormat final : public FileFormat {
 public:
  explicit CsvFormat(CsvOptions options) : options_(std::move(options)) {}

  std::string kind() const override { return "csv"; }
  std::unique_ptr<ElementReader> open(FileSystem& files, const std::string& path) const override {
    CsvTable table = internal::open_csv(files, path, options_);
    // Many writers leave a file without a byte for a part without rows.
    if (table.empty && !told_empty_.exchange(true)) {
      log::info(fmt::format(
          "input: {} is empty and has no rows; further empty files are not logged", path));
    }
    return std::make_unique<CsvRows>(std::move(table), options_);
  }

 private:
  const CsvOptions options_;
  mutable std::atomic<bool> told_empty_ = false;
};

}  // namespace

std::string to_string(CsvKind kind) {
  switch (kind) {
    case CsvKind::kFloat32:
      return "float32";
    case CsvKind::kFloat64:
      return "float64";
    case CsvKind::kInt64:
      return "int64";
    case CsvKind::kString:
      return "string";
  }
  return "unknown";
}

std::shared_ptr<const FileFormat> csv_format(CsvOptions options) {
  check_options(options);
  return std::make_shared<const CsvFormat>(std::move(options));
}

Dataset csv(const std::vector<std::string>& files, CsvOptions options) {
  if (files.empty()) {
    throw invalid_argument("csv() got no files", "name one at least, or match some: list_files()");
  }
  return Dataset::from_files(files, csv_format(infer_csv(files, std::move(options))));
}

}  // namespace muster::inline v0_1::data
