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

// The value that replaces a missing one: a number, or a text in a column of strings.
using CsvDefault = std::variant<double, int64_t, std::string>;

// A column to read.
struct CsvColumn {
  std::string name{};
  CsvKind kind = CsvKind::kFloat32;
  // The value that replaces a missing one; NaN is allowed. When it is unset, a missing value is an
  // error.
  std::optional<CsvDefault> missing{};
};

// Options of csv_format() and infer_csv().
struct CsvOptions {
  bool header = true;  // the first row of each file names the columns
  char delimiter = ',';
  bool use_quotes = true;
  // The names of all columns of the file, in place of those of the header. Without either they are
  // called "0", "1", ...
  std::vector<std::string> column_names{};
  // The columns to read. infer_csv() adds the columns that are not listed.
  std::vector<CsvColumn> columns{};
  // The columns that infer_csv() looks at, by name or by their index in the file; all of them when
  // it is empty.
  std::vector<std::variant<std::string, int64_t>> select_columns{};
  // The fields that stand for missing values; blanks around them are ignored. They count as missing
  // in every column, the label too.
  std::vector<std::string> na_values = {"", "?"};
  // The mark between a number and its fraction, and the one between its groups of three digits; 0
  // is none, ' ' any blank. {.delimiter = ';', .decimal = ',', .thousands = '.'} reads 1.234,5.
  char decimal = '.';
  char thousands = 0;
  // The column that is the label. When it is set, elements are (features, label), else features
  // alone.
  std::string label{};
  formats::Compression compression = formats::Compression::kAuto;
  // The number of rows that infer_csv() looks at. Unset: those of the first 16 MiB, and 1,000 at
  // least.
  std::optional<int64_t> infer_rows{};
  // The value of `missing` in the numeric columns that infer_csv() adds. When it is NaN, columns of
  // whole numbers that lack values among those rows become float32.
  std::optional<double> missing_number{};
};

// Returns `options` with a kind for every selected column that has none. It reads the first
// infer_rows rows of the files, one file after another: a column is int64 if all values that are
// not missing are whole numbers, float32 if they are numbers, float64 if float32 does not tell them
// apart (identifiers, dates and times above 2^24), and else string, where missing values are ""
// (but errors in the label). Whole numbers that are too long for int64 make a column of strings, so
// that identifiers keep their digits. A warning names a column in which at most one value in 20 is
// no number, one in which all values that are none are the same word, and one whose texts are
// numbers with other marks than `decimal` and `thousands`. Call it once for many files, so that all
// have the same kinds. Files may have no rows when all columns are listed. Throws NotFound when a
// file does not exist or lacks a selected column (the error lists those it has), and
// InvalidArgument and Corrupt as reading does; Corrupt, too, when no file has a header.
MUSTER_EXPORT CsvOptions infer_csv(const std::vector<std::string>& files, CsvOptions options = {});
// The same of one file.
MUSTER_EXPORT CsvOptions infer_csv(const std::string& path, CsvOptions options = {});

// Reads files whose rows are dicts {column: value}, or (dict, label). The columns are
// options.columns; a file may have more, in any order. A file without a byte, as an empty part of
// many is written, has no rows; the first one is told. Throws InvalidArgument for options that
// contradict each other or name no columns. Opening a file throws Corrupt when it names a column
// twice or is no text, NotFound when it lacks one. Reading throws Corrupt, naming file, line,
// column and value, for a row with another number of fields than the header, for what is no number
// of the column's kind, and for a missing value without a default; reading goes on behind that row.
// A warning names a column of kFloat32 whose numbers above 2^24 are rounded. Positions are byte
// offsets.
MUSTER_EXPORT std::shared_ptr<const FileFormat> csv_format(CsvOptions options);

// Reads the rows of the files, one file after another. infer_csv() says what the columns of all of
// them are. Throws as infer_csv() and csv_format() do, and InvalidArgument when
// there are no files.
MUSTER_EXPORT Dataset csv(const std::vector<std::string>& files, CsvOptions options = {});

// Options of CsvWriter.
struct CsvWriteOptions {
  char delimiter = ',';
  std::string label = "label";  // the name of a label that is a single value
};

// Writes rows with a header into a file that appears whole or not at all. csv_format() reads the
// same values back to the last bit, except for texts that are among its na_values; numbers are
// written as the shortest texts for which this holds. Thread safety: one thread.
class MUSTER_EXPORT CsvWriter {
 public:
  explicit CsvWriter(const std::string& path, const CsvWriteOptions& options = {});
  // Discards what was not committed.
  ~CsvWriter();
  CsvWriter(CsvWriter&&) noexcept;
  CsvWriter& operator=(CsvWriter&&) noexcept;

  // Adds rows: a dict of values [n], or of scalars for one row; or (features, labels), where the
  // labels are a dict or a single value. Throws InvalidArgument for other shapes, and for other
  // columns than the rows before had.
  void write(const Element& rows);
  // Puts the file under its name. Throws InvalidArgument when nothing was written, because the
  // header is not known then.
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster::inline v0_1::data
