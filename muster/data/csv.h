// CSV files as rows of named columns: numbers as tensors, texts as Strings.
// Thread safety: options are values; functions are pure but for the files they read or write.
//
//   csv({"titanic.csv"}, {.label = "survived"}).shuffle(1000).repeat().batch(32);
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "muster/data/dataset.h"
#include "muster/data/element_reader.h"
#include "muster/formats/compression.h"
#include "muster/tensor/element.h"

namespace muster::inline v0_1::data {

// What a column holds.
enum class CsvKind { kFloat32, kFloat64, kInt64, kString };
// "float32", "float64", "int64", "string".
std::string to_string(CsvKind kind);

// What stands in for a missing value: a number, or a text in a column of strings.
using CsvDefault = std::variant<double, int64_t, std::string>;

// A column to read.
struct CsvColumn {
  std::string name;
  CsvKind kind = CsvKind::kFloat32;
  // What a missing value becomes, NaN among others; when unset a missing value is an error.
  std::optional<CsvDefault> missing;
};

// Options of csv_format() and infer_csv().
struct CsvOptions {
  bool header = true;  // the first row of each file names the columns
  char delimiter = ',';
  bool use_quotes = true;
  // The names of all columns of the file, in place of those of the header. Without either they are
  // called "0", "1", ...
  std::vector<std::string> column_names;
  // The columns to read. infer_csv() adds those that are not listed.
  std::vector<CsvColumn> columns;
  // Which columns infer_csv() looks at, by name or by their index in the file; all when empty.
  std::vector<std::variant<std::string, int64_t>> select_columns;
  // Fields that are missing values, blanks around them aside.
  std::vector<std::string> na_values = {"", "?"};
  // The column that is the label: elements are (features, label) then, else features alone.
  std::string label;
  formats::Compression compression = formats::Compression::kAuto;
  // Rows infer_csv() looks at.
  int64_t infer_rows = 1000;
  // `missing` of the numeric columns that infer_csv() adds. NaN makes columns of whole numbers with
  // missing values among those rows float32.
  std::optional<double> missing_number;
};

// `options` with a kind for every selected column that has none, from the first infer_rows rows of
// the file: int64 if all values that are not missing are whole numbers, float32 if they are
// numbers, else string with missing values as "" (but for the label, where they are errors). Whole
// numbers too long for int64 make a column of strings, so that identifiers keep their digits. A
// warning names a column whose values are numbers but for one in 20 or fewer. Call it once for many
// files, so that all give the same kinds. A file without rows will do where all columns are listed.
// Throws NotFound for the file and for selected columns it does not have (listing those it has),
// InvalidArgument and Corrupt as reading it does.
CsvOptions infer_csv(const std::string& path, CsvOptions options = {});

// Reads files whose rows are dicts {column: value}, or (dict, label). The columns are
// options.columns; a file may have more, in any order. Throws InvalidArgument for options that
// contradict each other or name no columns. Opening a file throws Corrupt when it is empty or names
// a column twice, NotFound when it lacks one. Reading throws Corrupt, naming file, line, column and
// value, for a row with another number of fields than the header, for what is no number of the
// column's kind, and for a missing value without a default; reading goes on behind that row.
// Positions are byte offsets.
std::shared_ptr<const FileFormat> csv_format(CsvOptions options);

// The rows of the files, one file after another: infer_csv() of the first file says what the
// columns are in all of them. Throws as these two do, and InvalidArgument without files.
Dataset csv(const std::vector<std::string>& files, CsvOptions options = {});

// Options of CsvWriter.
struct CsvWriteOptions {
  char delimiter = ',';
  std::string label = "label";  // the name of a label that is a single value
};

// Writes rows with a header into a file that appears whole or not at all. What it writes,
// csv_format() reads back to the last bit (texts that are among its na_values aside): numbers are
// the shortest texts that do. Thread safety: one thread.
class CsvWriter {
 public:
  explicit CsvWriter(const std::string& path, const CsvWriteOptions& options = {});
  // Discards what was not committed.
  ~CsvWriter();
  CsvWriter(CsvWriter&&) noexcept;
  CsvWriter& operator=(CsvWriter&&) noexcept;

  // Adds rows: a dict of values [n], or of scalars for one row; or (features, labels), the labels a
  // dict or a single value. Throws InvalidArgument for other shapes and for other columns than
  // those before.
  void write(const Element& rows);
  // Puts the file under its name. Throws InvalidArgument when nothing was written: there is no
  // header to write.
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster::inline v0_1::data
