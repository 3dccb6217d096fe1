#include "muster/formats/csv.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "muster/base/printable.h"
#include "muster/formats/internal/find_bytes.h"
#include "muster/formats/lines.h"

namespace muster::inline v0_1::formats {
namespace {

constexpr char kQuote = '"';
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr size_t kShown = 60;  // bytes of a row in a message

// Recognises other formats that were taken for CSV files by their first bytes, and says how to
// convert them.
Status check_text(const std::string& name, std::string_view start) {
  const auto refuse = [&](const char* what, const std::string& hint) {
    return corrupt("'" + name + "' is " + what + ", and no CSV file in UTF-8", hint);
  };
  const bool zeros = start.size() >= 4 && (start[0] == 0) == (start[2] == 0) &&
                     (start[1] == 0) == (start[3] == 0) && (start[0] == 0) != (start[1] == 0);
  if (start.starts_with("\xff\xfe") || start.starts_with("\xfe\xff") || zeros) {
    return refuse("text in UTF-16",
                  "save it as UTF-8: iconv -f UTF-16 -t UTF-8 FILE > FILE.utf8.csv");
  }
  if (start.starts_with("PK\x03\x04")) {
    return refuse("a ZIP archive, as spreadsheets write .xlsx and .ods",
                  "save the sheet as CSV in UTF-8, or unpack the archive");
  }
  if (start.starts_with("\xd0\xcf\x11\xe0"))
    return refuse("a spreadsheet's own file (.xls)", "save the sheet as CSV in UTF-8");
  if (start.starts_with("PAR1")) return refuse("a Parquet file", "write it as CSV");
  return {};
}

std::string_view without_return(std::string_view text) {
  if (text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

}  // namespace

Status check_dialect(const CsvDialect& dialect) {
  const char delimiter = dialect.delimiter;
  if (delimiter != '\0' && delimiter != '\n' && delimiter != '\r' && delimiter != kQuote) return {};
  return invalid_argument("the delimiter of a CSV file is the byte " +
                              std::to_string(static_cast<unsigned char>(delimiter)),
                          "take a comma, a semicolon or a tab; no quote, line end or zero");
}

Result<CsvReader> CsvReader::open(std::unique_ptr<InputStream> stream, CsvDialect dialect,
                                  uint64_t longest_row) {
  Result<Bytes> start = stream->peek(kByteOrderMark.size());
  if (!start.ok()) return start.error();
  const Status is_text = check_text(stream->name(), text_of(start.value()));
  if (!is_text.ok()) return is_text.error();
  CsvReader reader(std::move(stream), dialect, longest_row);
  if (text_of(start.value()).starts_with(kByteOrderMark)) {
    reader.begin_ = kByteOrderMark.size();
    reader.stream_->consume(kByteOrderMark.size());
  }
  reader.window_offset_ = reader.begin_;
  reader.find_line_end();
  return reader;
}

void CsvReader::find_line_end() {
  constexpr size_t kFirstLine = 64 * 1024;
  // Damaged data is reported when it is read.
  Result<Bytes> bytes = stream_->peek(kFirstLine);
  if (!bytes.ok()) bytes = stream_->peek(1);
  if (!bytes.ok()) return;
  const std::string_view text = text_of(bytes.value());
  bool in_quotes = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (specials_[2] == kQuote && text[i] == kQuote) in_quotes = !in_quotes;
    if (in_quotes || (text[i] != '\n' && text[i] != '\r')) continue;
    lines_end_with_return_ = text[i] == '\r' && i + 1 < text.size() && text[i + 1] != '\n';
    return;
  }
}

CsvReader::CsvReader(std::unique_ptr<InputStream> stream, CsvDialect dialect, uint64_t longest_row)
    : stream_(std::move(stream)),
      longest_row_(longest_row),
      specials_{dialect.delimiter, '\n', dialect.use_quotes ? kQuote : '\n'},
      quotes_off_(dialect.quotes_off) {}

bool CsvReader::next_group() {
  group_ += 64 * group_words_;
  word_ = group_words_ = 0;
  if (group_ >= window_.size()) return false;
  const size_t rest = window_.size() - group_;
  if (rest >= 64) {
    group_words_ = std::min(rest / 64, kGroupWords);
    internal::find_bytes(window_.data() + group_, group_words_, specials_, masks_.data());
  } else {
    char tail[64] = {};
    std::memcpy(tail, window_.data() + group_, rest);
    group_words_ = 1;
    internal::find_bytes(tail, 1, specials_, masks_.data());
  }
  return true;
}

void CsvReader::restart_group(size_t from) {
  group_ = from;
  word_ = group_words_ = 0;
  mask_ = 0;
}

bool CsvReader::grow_fields() {
  if (fields_.size() >= kMostCsvFields) return false;
  fields_.resize(std::min(std::max<size_t>(64, 2 * fields_.size()), kMostCsvFields));
  return true;
}

template <typename NextSpecial>
[[gnu::always_inline]] inline CsvReader::Step CsvReader::read_quoted(
    size_t open, const NextSpecial& next_special, QuotedField& field) {
  const char* const data = window_.data();
  const size_t size = window_.size();
  size_t close = 0;
  while (true) {
    close = next_special();
    if (close == size) return window_is_last_ ? Step::kOpenQuote : Step::kMoreNeeded;
    if (data[close] == '\n') ++row_line_ends_;
    if (data[close] != kQuote) continue;
    if (close + 1 == size && !window_is_last_) return Step::kMoreNeeded;
    if (close + 1 == size || data[close + 1] != kQuote) break;
    next_special();
    field.has_doubled = true;
  }
  field.content = std::string_view(data + open + 1, close - open - 1);
  field.end = next_special();
  if (field.end == size && !window_is_last_) return Step::kMoreNeeded;
  const std::string_view behind(data + close + 1, field.end - close - 1);
  const bool at_line_end = field.end == size || data[field.end] == '\n';
  if (!behind.empty() && !(behind == "\r" && at_line_end)) {
    failed_at_ = close + 1;
    return Step::kTextBehindQuote;
  }
  return Step::kRow;
}

void CsvReader::keep_unquoted(std::string_view content) {
  const size_t begin = unquoted_.size();
  for (size_t i = 0; i < content.size(); ++i) {
    unquoted_ += content[i];
    if (content[i] == kQuote) ++i;
  }
  unquoted_fields_.push_back({count_, begin, unquoted_.size() - begin});
}

CsvReader::Step CsvReader::step() {
  const char* const data = window_.data();
  const size_t size = window_.size();
  uint64_t mask = mask_;
  // Where the next delimiter, quote or line end is; `size` when there is none.
  const auto next_special = [&]() -> size_t {
    while (mask == 0) {
      if (++word_ >= group_words_ && !next_group()) return size;
      mask = masks_[word_];
    }
    const size_t at = group_ + 64 * word_ + static_cast<size_t>(std::countr_zero(mask));
    mask &= mask - 1;
    return at;
  };

  count_ = 0;
  row_line_ends_ = 0;
  unquoted_fields_.clear();
  unquoted_.clear();
  size_t field = at_;
  while (true) {
    size_t special = next_special();
    if (special == size && !window_is_last_) return Step::kMoreNeeded;
    std::string_view content(data + field, special - field);
    bool quoted = false, doubled = false;
    if (special < size && data[special] == kQuote && specials_[2] == kQuote) {
      if (special != field) {
        failed_at_ = special;
        return Step::kQuoteInside;
      }
      quoted = true;
      QuotedField in_quotes;
      const Step step = read_quoted(field, next_special, in_quotes);
      if (step != Step::kRow) return step;
      content = in_quotes.content;
      doubled = in_quotes.has_doubled;
      special = in_quotes.end;
    }
    const bool last = special == size || data[special] == '\n';
    if (last && !quoted) content = without_return(content);
    if (count_ == fields_.size() && !grow_fields()) {
      failed_at_ = special;
      return Step::kTooManyFields;
    }
    if (doubled) keep_unquoted(content);
    fields_[count_++] = content;
    field = special + 1;
    if (!last) continue;

    text_ = without_return({data + at_, special - at_});
    at_ = std::min(field, size);
    mask_ = mask;
    if (count_ == 1 && content.empty() && !quoted) return Step::kBlank;
    for (const Unquoted& unquoted : unquoted_fields_) {
      fields_[unquoted.field] = std::string_view(unquoted_).substr(unquoted.begin, unquoted.size);
    }
    return Step::kRow;
  }
}

Status CsvReader::more(size_t held) {
  // A row that is larger than the window is read again in a window of twice the size.
  const size_t wanted = held > 0 && at_ == 0 ? 2 * held : held + 1;
  stream_->consume(at_);
  window_offset_ += at_;
  at_ = 0;
  restart_group(0);
  Result<Bytes> bytes = stream_->peek(wanted);
  size_t asked = wanted;
  if (!bytes.ok() && wanted > held + 1) {
    // The damage may be after this row.
    asked = held + 1;
    bytes = stream_->peek(asked);
  }
  if (!bytes.ok()) {
    window_ = {};
    ended_ = true;
    return bytes.error();
  }
  window_ = text_of(bytes.value());
  window_is_last_ = window_.size() < asked;
  if (lines_end_with_return_) {
    translated_.assign(window_.begin(), window_.end());
    std::ranges::replace(translated_, '\r', '\n');
    window_ = {translated_.data(), translated_.size()};
  }
  return {};
}

Status CsvReader::restart_window(uint64_t offset) {
  window_ = {};
  at_ = 0;
  restart_group(0);
  window_is_last_ = false;
  window_offset_ = offset;
  const Status status = stream_->seek(offset);
  if (!status.ok()) ended_ = true;
  return status;
}

Result<bool> CsvReader::next() {
  count_ = 0;
  text_ = {};
  while (!ended_) {
    row_offset_ = offset();
    row_line_ = line_;
    if (at_ == window_.size()) {
      if (window_is_last_) break;
      const Status status = more(0);
      if (!status.ok()) return status.error();
      continue;
    }
    const Step step = this->step();
    if (step == Step::kRow) {
      if (line_) *line_ += row_line_ends_ + 1;
      return true;
    }
    if (step == Step::kBlank) {
      if (line_) ++*line_;
      continue;
    }
    const size_t held = window_.size() - at_;
    if (step != Step::kMoreNeeded) return failed(step);
    if (held > longest_row_) return failed(Step::kTooLong);
    const Status status = more(held);
    if (!status.ok()) return status.error();
  }
  count_ = 0;
  return false;
}

Status CsvReader::pass_line() {
  size_t from = failed_at_;
  while (true) {
    const size_t found = window_.find('\n', from);
    if (found != std::string_view::npos || window_is_last_) {
      at_ = found != std::string_view::npos ? found + 1 : window_.size();
      restart_group(at_);
      if (line_) *line_ += row_line_ends_ + 1;
      return {};
    }
    at_ = window_.size();
    const Status status = more(0);
    if (!status.ok()) return status;
    from = 0;
  }
}

Error CsvReader::failed(Step step) {
  count_ = 0;
  std::string_view row = window_.substr(at_, kShown);
  row = without_return(row.substr(0, row.find('\n')));
  const std::string shown = "'" + printable(row) + (row.size() == kShown ? "...'" : "'");
  if (step == Step::kOpenQuote || step == Step::kTooLong) {
    ended_ = true;
  } else {
    const Status passed = pass_line();
    if (!passed.ok()) return passed.error();
  }
  const Result<uint64_t> line = row_line();
  if (!line.ok()) return line.error();
  const std::string where = name() + ":" + std::to_string(line.value()) + ": ";
  switch (step) {
    case Step::kQuoteInside:
      return corrupt(
          where + "a quote stands inside of a field that does not begin with one: " + shown,
          "put the whole field in quotes and double those inside, without blanks around it" +
              quotes_off());
    case Step::kTextBehindQuote:
      return corrupt(where + "text follows the closing quote of a field: " + shown,
                     "double the quotes inside of a quoted field" + quotes_off());
    case Step::kTooManyFields:
      return corrupt(
          where + "a row of more than " + std::to_string(kMostCsvFields) + " fields: " + shown,
          "check the delimiter and that this is a CSV file");
    case Step::kOpenQuote:
      return corrupt(where +
                         "a quote of this row is opened and not closed before the end of the "
                         "file: " +
                         shown,
                     "close it" + quotes_off());
    default:
      return corrupt(
          where + "a row longer than " + std::to_string(longest_row_) + " bytes: " + shown,
          "a quote may be opened and not closed there" + quotes_off());
  }
}

Result<uint64_t> CsvReader::row_line() {
  if (row_line_) return *row_line_;
  const uint64_t resume = offset();
  const auto count = [&]() -> Status {
    Status status = stream_->seek(0);
    if (!status.ok()) return status;
    const std::string_view ends = lines_end_with_return_ ? "\n\r" : "\n";
    Result<uint64_t> before = count_line_ends(*stream_, row_offset_, ends);
    if (!before.ok()) return before.error();
    Result<uint64_t> inside = count_line_ends(*stream_, resume - row_offset_, ends);
    if (!inside.ok()) return inside.error();
    row_line_ = before.value() + 1;
    line_ = *row_line_ + inside.value();
    return restart_window(resume);
  };
  const Status status = count();
  if (status.ok()) return *row_line_;
  ended_ = true;
  return status.error();
}

Status CsvReader::seek(uint64_t offset) {
  ended_ = false;
  count_ = 0;
  text_ = {};
  line_ = row_line_ = std::nullopt;
  if (offset == begin_) {
    line_ = 1;
    return restart_window(offset);
  }
  Status status;
  if (offset > begin_) {
    status = restart_window(offset - 1);
    if (!status.ok()) return status;
    Result<Bytes> bytes = stream_->peek(2);
    if (!bytes.ok()) {
      ended_ = true;
      return bytes.error();
    }
    const std::string_view around = text_of(bytes.value());
    if (around.starts_with('\n') || around.size() == 1 ||
        (lines_end_with_return_ && around.starts_with('\r')))
      return restart_window(offset);
  }
  ended_ = true;
  return invalid_argument("no row of '" + name() + "' begins at byte " + std::to_string(offset),
                          "the file is not the one the position was taken from");
}

void append_csv_row(std::string& out, std::span<const std::string_view> fields,
                    const CsvDialect& dialect) {
  const char special[] = {dialect.delimiter, kQuote, '\n', '\r'};
  for (size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) out += dialect.delimiter;
    const std::string_view field = fields[i];
    // A row of one empty field would be an empty line, which readers pass over.
    const bool quote = field.find_first_of({special, 4}) != std::string_view::npos ||
                       field.starts_with(kByteOrderMark) || (field.empty() && fields.size() == 1);
    if (!quote || !dialect.use_quotes) {
      out += field;
      continue;
    }
    out += kQuote;
    for (const char letter : field) {
      if (letter == kQuote) out += kQuote;
      out += letter;
    }
    out += kQuote;
  }
  out += '\n';
}

}  // namespace muster::inline v0_1::formats
