// CSV (RFC 4180): rows of fields, some of them in quotes. Quotes double inside of quotes; a quoted
// field may hold delimiters and line ends. Lines end with \n or \r\n, the last one with either or
// none; empty lines are passed over, and so is a UTF-8 byte order mark. Where the first line ends
// with \r alone, as old spreadsheets write it, \r ends all lines, and within quotes it is \n.
// Thread safety: a reader belongs to one thread at a time; the rest are pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/result.h"
#include "muster/formats/input_stream.h"

namespace muster::inline v0_1::formats {

// The characters that separate fields.
struct CsvDialect {
  char delimiter = ',';
  bool use_quotes = true;  // false: a quote is a letter like any other
  // How the user of the program turns quotes off; for errors.
  std::string_view quotes_off = "set use_quotes = false";
};

// Returns InvalidArgument for a delimiter that is a quote, a line end or the zero byte.
Status check_dialect(const CsvDialect& dialect);

// The longest row that is read, in bytes. A quote that is never closed must not fill the memory.
inline constexpr uint64_t kLongestCsvRow = uint64_t{1} << 28;
// The most fields that a row may have.
inline constexpr size_t kMostCsvFields = size_t{1} << 20;

// Reads the rows of one file in order.
class CsvReader {
 public:
  // `stream` must not be null and must stand at its beginning; check_dialect() must accept the
  // dialect. The errors are those of reading the first bytes, and Corrupt, with what to do, for
  // bytes that are not text in UTF-8: UTF-16, a spreadsheet's own file, Parquet.
  static Result<CsvReader> open(std::unique_ptr<InputStream> stream, CsvDialect dialect = {},
                                uint64_t longest_row = kLongestCsvRow);

  // Reads the next row; returns false at the end. The error is Corrupt, and names the file and the
  // line, for a quote inside of an unquoted field, for text after a closing quote and for too many
  // fields; the next call continues after that line. It is Corrupt also for a quote that is never
  // closed and for a row over the limit; after these, and after errors of the stream, the next call
  // returns false.
  Result<bool> next();

  // The fields of the last row. The views are good until the next call of anything but fields() and
  // text().
  std::span<const std::string_view> fields() const { return {fields_.data(), count_}; }
  // The row as it stands in the file, without its line end.
  std::string_view text() const { return text_; }

  // The byte of the unpacked content at which the last row begins.
  uint64_t row_offset() const { return row_offset_; }
  // The line in which the last row begins, counted from 1. After a seek() the first call reads the
  // file from its beginning to count lines, and the views above are gone.
  Result<uint64_t> row_line();

  // The byte at which the next row begins, or the empty lines before it.
  uint64_t offset() const { return window_offset_ + at_; }
  // Goes on at an offset that offset() returned. Returns InvalidArgument when no row can begin
  // there; the reader is at the end then.
  Status seek(uint64_t offset);

  // The name of the file in errors: its path.
  const std::string& name() const { return stream_->name(); }

 private:
  // The window is searched in groups of so many words; a bit of a word says that a byte is a
  // delimiter, a quote or a line end.
  static constexpr size_t kGroupWords = 64;

  // A field that has doubled quotes; unquoted_ holds it with single ones.
  struct Unquoted {
    size_t field{}, begin{}, size{};
  };

  CsvReader(std::unique_ptr<InputStream> stream, CsvDialect dialect, uint64_t longest_row);

  // The result of one try to read a row out of the window.
  enum class Step {
    kRow,
    kBlank,
    kMoreNeeded,
    kQuoteInside,
    kTextBehindQuote,
    kOpenQuote,
    kTooManyFields,
    kTooLong,
  };
  Step step();
  // A field in quotes, and what ends it.
  struct QuotedField {
    std::string_view content{};  // between the quotes; those inside are still doubled
    size_t end = 0;              // in the window: the delimiter or line end after it
    bool has_doubled = false;
  };
  // Reads on after the opening quote at `open` of the window. Returns kRow when it has read the
  // field, else the step with which the row ends.
  template <typename NextSpecial>
  Step read_quoted(size_t open, const NextSpecial& next_special, QuotedField& field);
  // Keeps `content`, its doubled quotes made single, as the field that is added next.
  void keep_unquoted(std::string_view content);
  // Searches the next group of the window; returns false at the end of the window.
  bool next_group();
  void restart_group(size_t from);
  bool grow_fields();
  // Looks at the first line of the stream, which stands at its beginning.
  void find_line_end();
  std::string quotes_off() const { return "; or " + quotes_off_ + ", if quotes mean nothing"; }
  // Extends the window: it shows the `held` bytes from at_ on again, and what comes after them.
  Status more(size_t held);
  // Forgets the window; the next row is read from `offset` of the stream.
  Status restart_window(uint64_t offset);
  // Goes on after the line that holds failed_at_.
  Status pass_line();
  // Returns the error of a step, and moves the reader to where it continues.
  Error failed(Step step);

  std::unique_ptr<InputStream> stream_;
  uint64_t longest_row_;
  std::array<char, 3> specials_;
  std::string quotes_off_;
  bool lines_end_with_return_ = false;
  std::vector<char> translated_;  // the window then, with \n in place of \r

  std::string_view window_;  // what the stream shows, from window_offset_ on
  uint64_t window_offset_ = 0;
  bool window_is_last_ = false;  // nothing comes after the window
  size_t at_ = 0;                // in the window: where the next row begins

  std::array<uint64_t, kGroupWords> masks_;
  size_t group_ = 0;        // in the window: where the group begins
  size_t group_words_ = 0;  // how many of masks_ are in use
  size_t word_ = 0;         // of masks_, the one being used up
  uint64_t mask_ = 0;       // what is left of it

  std::vector<std::string_view> fields_;
  size_t count_ = 0;
  std::vector<Unquoted> unquoted_fields_;
  std::string unquoted_;
  std::string_view text_;
  size_t failed_at_ = 0;  // in the window

  uint64_t row_offset_ = 0;
  uint64_t begin_ = 0;  // after the byte order mark
  // How many lines begin before the next row, and before the last one. Both are unknown after a
  // seek().
  std::optional<uint64_t> line_ = 1;
  std::optional<uint64_t> row_line_;
  uint64_t row_line_ends_ = 0;
  bool ended_ = false;
};

// Adds a row and a line end to `out`. Fields are put in quotes where a reader would take them for
// something else. REQUIRES: a dialect with quotes, or fields that need none.
void append_csv_row(std::string& out, std::span<const std::string_view> fields,
                    const CsvDialect& dialect = {});

}  // namespace muster::inline v0_1::formats
