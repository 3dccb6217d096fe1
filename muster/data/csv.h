// Reads and writes CSV files as rows of named columns: numbers are tensors, texts are Strings.
// Thread safety: options are values; functions are pure except for the files they read or write.
//
//   csv({"titanic.csv"}, {.label = "survived"}).shuffle(1000).repeat().batch(32);
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "muster/base/export.h"
#include "muster/data/dataset.h"
#include "muster/data/element_reader.h"
#include "muster/formats/compression.h"
#include "muster/tensor/element.h"

namespace muster::inline v0_1::data {

// The kind of values in a column.
enum class CsvKind { kFloat32, kFloat64, kInt64, kString };
// Returns "float32", "float64", "int64" or "string".
MUSTER_EXPORT std::string to_string(CsvKind kind);

// The replacement of a missing value: a number, or a text in a column of strings.
using CsvDefault = std::variant<double, int64_t, std::string>;

// A column to read.
struct CsvColumn {
  std::string name{};
  CsvKind kind = CsvKind::kFloat32;
  // The replacement of a missing value; NaN is allowed. Unset: a missing value is an error.
  std::optional<CsvDefault> missing{};
};

// Options of csv_format() and infer_csv().
struct CsvOptions {
  bool header = true;  // the first row of each file names the columns
  char delimiter = ',';
  bool use_quotes = true;
  // The names of all columns of the file; they replace the header's names. Without names and
  // without a header, columns are called "0", "1", ...
  std::vector<std::string> column_names{};
  // The columns to read. infer_csv() adds the columns that are not listed.
  std::vector<CsvColumn> columns{};
  // The columns that infer_csv() examines, by name or by index in the file; empty: all.
  std::vector<std::variant<std::string, int64_t>> select_columns{};
  // Fields that mean a missing value; blanks around them are ignored. They apply to every column,
  // including the label.
  std::vector<std::string> na_values = {"", "?"};
  // The decimal mark, and the mark between groups of three digits; 0 is none, ' ' any blank.
  // {.delimiter = ';', .decimal = ',', .thousands = '.'} reads 1.234,5.
  char decimal = '.';
  char thousands = 0;
  // The column of the label. If set, elements are (features, label), else only the features.
  std::string label{};
  formats::Compression compression = formats::Compression::kAuto;
  // The number of rows that infer_csv() examines. Unset: the rows of the first 16 MiB, at least
  // 1,000.
  std::optional<int64_t> infer_rows{};
  // The value of `missing` in the numeric columns that infer_csv() adds. With NaN, a column of
  // whole numbers with missing values among the examined rows becomes float32.
  std::optional<double> missing_number{};
};

// Returns `options` with a kind for every selected column that has none, inferred from the first
// infer_rows rows of the files, one file after another:
//
// - int64 if all present values are whole numbers;
// - float32 if they are numbers;
// - float64 if float32 would make different numbers equal (identifiers, dates and times above
//   2^24);
// - string otherwise, where a missing value is "" (but an error in the label). Whole numbers too
//   long for int64 make a column of strings, so that identifiers keep their digits.
//
// Logs a warning for a column in which at most one value in 20 is not a number, for one whose
// non-numbers are one word, and for one whose texts are numbers with other marks than
// `decimal` and `thousands`. Call it once for many files, so that all have the same kinds. Files
// may have no rows when all columns are listed. Throws NotFound when a file is missing or lacks a
// selected column (the error lists its columns), InvalidArgument and Corrupt as reading does, and
// Corrupt when no file has a header.
MUSTER_EXPORT CsvOptions infer_csv(const std::vector<std::string>& files, CsvOptions options = {});
// Does the same for one file.
MUSTER_EXPORT CsvOptions infer_csv(const std::string& path, CsvOptions options = {});

// Reads files whose rows are dicts {column: value}, or (dict, label). The columns are
// options.columns; a file may have more, in any order. An empty file has no rows, as when many
// parts are written; the first one is logged. Throws InvalidArgument for options that contradict
// each other or name no columns. Opening a file throws Corrupt if it names a column twice or is not
// text, and NotFound if it lacks a column. Reading throws Corrupt with file, line, column and value
// for a row with another number of fields than the header, for a field that is not a number of the
// column's kind, and for a missing value without a default; the next read continues after that row.
// Logs a warning for a column of kFloat32 whose numbers above 2^24 are rounded. Positions are byte
// offsets.
MUSTER_EXPORT std::shared_ptr<const FileFormat> csv_format(CsvOptions options);

// Reads the rows of the files, one file after another. infer_csv() determines the columns of all
// files. Throws the errors of infer_csv() and csv_format(), and InvalidArgument without files.
MUSTER_EXPORT Dataset csv(const std::vector<std::string>& files, CsvOptions options = {});

// Options of CsvWriter.
struct CsvWriteOptions {
  char delimiter = ',';
  std::string label = "label";  // the name of a label that is a single value
};

// Writes rows with a header into a file that appears complete or not at all. csv_format() reads
// back exactly the same values, except for texts that are in its na_values; each number is written
// as the shortest text that reads back the same. Thread safety: one thread.
class MUSTER_EXPORT CsvWriter {
 public:
  explicit CsvWriter(const std::string& path, const CsvWriteOptions& options = {});
  // Discards uncommitted rows.
  ~CsvWriter();
  CsvWriter(CsvWriter&&) noexcept;
  CsvWriter& operator=(CsvWriter&&) noexcept;

  // Adds rows: a dict of values [n], or of scalars for one row; or (features, labels), where the
  // labels are a dict or a single value. Throws InvalidArgument for other shapes, and for other
  // columns than those of earlier rows.
  void write(const Element& rows);
  // Gives the file its name. Throws InvalidArgument if no rows were written, because the header is
  // then unknown.
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster::inline v0_1::data
