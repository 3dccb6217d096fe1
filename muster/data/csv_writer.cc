// CsvWriter: rows to CSV files.

#include <array>
#include <charconv>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/strings.h"
#include "muster/data/csv.h"
#include "muster/files/file_systems.h"
#include "muster/formats/csv.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data {
namespace {

constexpr size_t kFlushAt = 256 * 1024;

struct NamedColumn {
  std::string name{};
  Value value{};
};

void add_columns(const Element& element, const std::string& leaf_name,
                 std::vector<NamedColumn>* columns) {
  if (element.is_leaf() && !leaf_name.empty()) {
    columns->push_back({leaf_name, element.value()});
    return;
  }
  if (element.structure().kind != Structure::Kind::kDict) {
    throw invalid_argument("CsvWriter got rows of the form " + element.describe(),
                           "give a dict of columns, or (dict, label)");
  }
  for (const std::string& key : element.structure().keys) {
    columns->push_back({key, element.at(key).value()});
  }
}

// The texts of a column.
class Cells {
 public:
  // Throws InvalidArgument for values without a text form, and for shapes that are not [rows].
  Cells(const NamedColumn& column, bool scalars) : strings_(nullptr) {
    const bool one_axis =
        column.value.is_tensor()
            ? column.value.tensor().defined() && column.value.tensor().dim() == (scalars ? 0 : 1)
            : column.value.strings().shape().size() == (scalars ? 0u : 1u);
    if (!one_axis) {
      throw invalid_argument(fmt::format("CsvWriter: the column '{}' is {}, not {}", column.name,
                                         column.value.describe(),
                                         scalars ? "a scalar as the first one" : "one value a row"),
                             "give every column the shape [rows]; split vectors into columns");
    }
    if (column.value.is_strings()) {
      strings_ = &column.value.strings();
      rows_ = strings_->size();
      return;
    }
    const Tensor tensor = column.value.tensor().detach().cpu();
    const DType dtype = tensor.scalar_type();
    if (tensor.is_complex()) {
      throw invalid_argument(
          fmt::format("CsvWriter: the column '{}' is {}: complex numbers have no "
                      "text",
                      column.name, column.value.describe()),
          "write real and imaginary parts as two columns");
    }
    const bool narrow = dtype == at::kFloat || dtype == at::kHalf || dtype == at::kBFloat16;
    dtype_ = dtype == at::kDouble ? at::kDouble : narrow ? at::kFloat : at::kLong;
    numbers_ = tensor.to(dtype_).contiguous();
    rows_ = numbers_.numel();
  }

  int64_t rows() const { return rows_; }

  // Good until the next call.
  std::string_view text(int64_t row) {
    if (strings_ != nullptr) return (*strings_)[row];
    const auto put = [&](auto number) -> std::string_view {
      const auto [end, code] = std::to_chars(text_.data(), text_.data() + text_.size(), number);
      return {text_.data(), static_cast<size_t>(end - text_.data())};
    };
    if (dtype_ == at::kFloat) return put(numbers_.data_ptr<float>()[row]);
    if (dtype_ == at::kDouble) return put(numbers_.data_ptr<double>()[row]);
    return put(numbers_.data_ptr<int64_t>()[row]);
  }

 private:
  const Strings* strings_;
  Tensor numbers_;
  DType dtype_ = at::kLong;
  int64_t rows_ = 0;
  std::array<char, 32> text_{};
};

bool is_scalar(const Value& value) {
  return value.is_tensor() ? value.tensor().defined() && value.tensor().dim() == 0
                           : value.strings().shape().empty();
}

}  // namespace

struct CsvWriter::State {
  std::string path{};
  CsvWriteOptions options;
  std::unique_ptr<StagedWriter> file{};
  std::vector<std::string> names{};  // of the columns; empty before the first row
  std::string text{};                // not yet in the file

  void flush() {
    file->append(bytes_of(text)).value();
    text.clear();
  }
};

CsvWriter::CsvWriter(const std::string& path, const CsvWriteOptions& options)
    : state_(std::make_unique<State>()) {
  formats::check_dialect({.delimiter = options.delimiter}).value();
  state_->path = path;
  state_->options = options;
  state_->file = file_systems().open_staged(path).value();
}

CsvWriter::~CsvWriter() = default;
CsvWriter::CsvWriter(CsvWriter&&) noexcept = default;
CsvWriter& CsvWriter::operator=(CsvWriter&&) noexcept = default;

void CsvWriter::write(const Element& rows) {
  std::vector<NamedColumn> columns;
  if (rows.structure().kind == Structure::Kind::kTuple && rows.size() == 2) {
    add_columns(rows.part(0), "", &columns);
    add_columns(rows.part(1), state_->options.label, &columns);
  } else {
    add_columns(rows, "", &columns);
  }
  if (columns.empty()) throw invalid_argument("CsvWriter got rows without columns");
  std::vector<std::string> names;
  for (const NamedColumn& column : columns) names.push_back(column.name);
  if (!state_->names.empty() && names != state_->names) {
    throw invalid_argument(fmt::format("{}: rows of the columns {} follow rows of {}", state_->path,
                                       join_quoted(names), join_quoted(state_->names)),
                           "give all rows the same columns");
  }
  const bool scalars = is_scalar(columns.front().value);
  std::vector<Cells> cells;
  for (const NamedColumn& column : columns) {
    cells.emplace_back(column, scalars);
    if (cells.back().rows() == cells.front().rows()) continue;
    throw invalid_argument(
        fmt::format("CsvWriter: the column '{}' is {}, '{}' is {}", columns.front().name,
                    columns.front().value.describe(), column.name, column.value.describe()),
        "give every column one value a row");
  }
  const formats::CsvDialect dialect{.delimiter = state_->options.delimiter};
  std::vector<std::string_view> fields(names.begin(), names.end());
  if (state_->names.empty()) formats::append_csv_row(state_->text, fields, dialect);
  for (int64_t row = 0; row < cells.front().rows(); ++row) {
    for (size_t i = 0; i < cells.size(); ++i) fields[i] = cells[i].text(row);
    formats::append_csv_row(state_->text, fields, dialect);
    if (state_->text.size() >= kFlushAt) state_->flush();
  }
  state_->names = std::move(names);
}

void CsvWriter::commit() {
  if (state_->names.empty()) {
    throw invalid_argument(
        fmt::format("{}: no rows were written, so there is no header", state_->path),
        "write rows first; a batch of zero rows names the columns too");
  }
  state_->flush();
  state_->file->commit().value();
}

}  // namespace muster::inline v0_1::data
