// CsvReader on anything, with and without quotes: it ends, its positions ascend, each of them leads
// back to the same row, and its rows are written and read again.
#include <cmath>

#include "muster/formats/csv.h"
#include "muster/formats/number_text.h"
#include "muster/formats/written_number.h"
#include "tests/fuzz/meter.h"
#include "tests/fuzz/target.h"

namespace muster::fuzz {

std::vector<std::string> seeds() {
  return {"a,b\n\"x,\"\"y\",2\n1e5,-3.5\r\n\n\"a\nb\",c",
          "\xef\xbb\xbfid;value\r\n1;0.25\r\n2;?\r\n",
          "a,b,c\n1,2\n\"open,1\nlast,2\n",
          "5\" pipe,x\n\"two\nlines\" no\ngood,row\n" + std::string(500, ',') + "\n",
          "a,b\r\"x\ry\",2\r\r3,4\n5,6\r\n7,8",
          "a;b\n1.234,5 \xe2\x82\xac;(12 %)\n1'234.50;-1\xc2\xa0"
          "234\n"};
}

std::vector<std::string> seed_folders() { return {"tabular/titanic", "tabular/iris", "sparse"}; }

namespace {

constexpr uint64_t kLongestRow = 2000;

Result<formats::CsvReader> try_open(Bytes bytes, formats::CsvDialect dialect) {
  return formats::CsvReader::open(
      formats::InputStream::open(memory_reader(bytes, "input"), formats::Compression::kNone)
          .value(),
      dialect, kLongestRow);
}
formats::CsvReader open(Bytes bytes, formats::CsvDialect dialect) {
  return try_open(bytes, dialect).value();
}

// The row that next() has read, or its error, as text; empty at the end.
std::string next_text(formats::CsvReader& reader) {
  const Result<bool> row = reader.next();
  if (!row.ok()) return row.error().message();
  if (!row.value()) return {};
  std::string text = "row:";
  for (const std::string_view field : reader.fields()) {
    text += std::string(field) + "\1";
    float number = 0;
    int64_t whole = 0;
    if (formats::parse_number(field, &whole)) {
      require(formats::parse_number(field, &number), "a whole number is a number");
    }
    double exact = 0;
    const auto written = formats::WrittenNumber::read(field);
    constexpr size_t kLongestNumber = 200;
    if (field.size() <= kLongestNumber && formats::parse_number(field, &exact) &&
        std::isfinite(exact)) {
      require(written && written->value(false) == exact, "a person writes it as a program does");
    }
  }
  return text + std::to_string(reader.row_line().value());
}

// All rows, of any length, one after the other.
void read_all(Bytes bytes, formats::CsvDialect dialect) {
  formats::CsvReader reader =
      formats::CsvReader::open(
          formats::InputStream::open(memory_reader(bytes, "input"), formats::Compression::kNone)
              .value(),
          dialect)
          .value();
  for (Result<bool> row = reader.next(); !row.ok() || row.value(); row = reader.next()) {
  }
}

void check(Bytes bytes, formats::CsvDialect dialect) {
  metered(parse_memory_limit(bytes.size()), [&] { read_all(bytes, dialect); });
  formats::CsvReader reader = open(bytes, dialect);
  std::vector<uint64_t> places{reader.offset()};
  std::vector<std::string> texts;
  for (std::string text = next_text(reader); !text.empty(); text = next_text(reader)) {
    require(reader.offset() >= places.back(), "positions ascend");
    texts.push_back(text);
    places.push_back(reader.offset());
    require(texts.size() <= bytes.size(), "there are no more rows than bytes");
  }
  for (size_t i = 0; i < texts.size(); i += 1 + texts.size() / 4) {
    // A line end within quotes that a damaged row has left open may look like a place for a row.
    if (!reader.seek(places[i]).ok()) continue;
    require(next_text(reader) == texts[i], "a position leads back to its row");
  }
}

// A file that begins as UTF-16 or another format is refused when it is opened.
bool is_text(Bytes bytes) { return try_open(bytes, {}).ok(); }

// Rows that can be read, written and read again.
void check_written(Bytes bytes) {
  formats::CsvReader reader = open(bytes, {});
  std::vector<std::vector<std::string>> rows;
  std::string text;
  for (Result<bool> row = reader.next(); !row.ok() || row.value(); row = reader.next()) {
    if (!row.ok()) continue;
    rows.emplace_back(reader.fields().begin(), reader.fields().end());
    formats::append_csv_row(text, reader.fields());
  }
  if (!is_text(bytes_of(text))) return;  // rows in front of these could not be read
  formats::CsvReader again = open(bytes_of(text), {});
  for (const auto& row : rows) {
    const Result<bool> read = again.next();
    if (!read.ok() && text.size() > kLongestRow) return;  // quotes may make a row longer
    require(read.ok() && read.value(), "what was written can be read");
    require(std::vector<std::string>(again.fields().begin(), again.fields().end()) == row,
            "what was written is what was read");
  }
}

}  // namespace
}  // namespace muster::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;  // NOLINT(google-build-using-namespace)
  const Bytes bytes = fuzz::bytes_of_input(data, size);
  if (!fuzz::is_text(bytes)) return 0;
  fuzz::check(bytes, {});
  fuzz::check(bytes, {.delimiter = ';', .use_quotes = false});
  fuzz::check_written(bytes);
  return 0;
}
