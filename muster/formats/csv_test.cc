#include "muster/formats/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "muster/base/random.h"
#include "muster/formats/gzip.h"

namespace muster::inline v0_1::formats {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Rows = std::vector<std::vector<std::string>>;

CsvReader csv_reader(const std::string& content, CsvDialect dialect = {},
                     uint64_t longest = kLongestCsvRow) {
  return CsvReader::open(InputStream::open(memory_reader(bytes_of(content), "x.csv")).value(),
                         dialect, longest)
      .value();
}

std::vector<std::string> row_of(const CsvReader& reader) {
  return {reader.fields().begin(), reader.fields().end()};
}

Rows rest_of(CsvReader& reader) {
  Rows rows;
  while (reader.next().value()) rows.push_back(row_of(reader));
  return rows;
}

Rows rows_of(const std::string& content, CsvDialect dialect = {}) {
  CsvReader reader = csv_reader(content, dialect);
  return rest_of(reader);
}

std::string csv_of(const Rows& rows, CsvDialect dialect = {}) {
  std::string text;
  for (const auto& row : rows) {
    append_csv_row(text, std::vector<std::string_view>(row.begin(), row.end()), dialect);
  }
  return text;
}

TEST(Csv, FieldsAndRows) {
  EXPECT_EQ(rows_of("a,b\n1,2\n"), (Rows{{"a", "b"}, {"1", "2"}}));
  EXPECT_EQ(rows_of("a,b\r\n1,2\r\n"), (Rows{{"a", "b"}, {"1", "2"}}));
  EXPECT_EQ(rows_of("a,b\n1,2"), (Rows{{"a", "b"}, {"1", "2"}}));
  EXPECT_EQ(rows_of("a,b\r"), (Rows{{"a", "b"}}));
  EXPECT_EQ(rows_of(",\n,,\n"), (Rows{{"", ""}, {"", "", ""}}));
  EXPECT_EQ(rows_of("a,"), (Rows{{"a", ""}}));
  EXPECT_EQ(rows_of(" a , b \n"), (Rows{{" a ", " b "}}));
  EXPECT_EQ(rows_of("a;b,c\n", {.delimiter = ';'}), (Rows{{"a", "b,c"}}));
  EXPECT_EQ(rows_of("a\tb\n", {.delimiter = '\t'}), (Rows{{"a", "b"}}));
}

TEST(Csv, EmptyLinesAndTheByteOrderMarkArePassedOver) {
  EXPECT_EQ(rows_of(""), Rows{});
  EXPECT_EQ(rows_of("\n\r\n\n"), Rows{});
  EXPECT_EQ(rows_of("\na\n\n\r\nb\n\n"), (Rows{{"a"}, {"b"}}));
  EXPECT_EQ(rows_of("\"\"\n"), (Rows{{""}}));
  EXPECT_EQ(rows_of("\xef\xbb\xbf"
                    "a,b\n"),
            (Rows{{"a", "b"}}));
  EXPECT_EQ(rows_of("\xef\xbb\xbf"), Rows{});
  EXPECT_EQ(rows_of("\xef\xbb"
                    "a\n"),
            (Rows{{"\xef\xbb"
                   "a"}}));
}

TEST(Csv, QuotesHoldDelimitersLineEndsAndDoubledQuotes) {
  EXPECT_EQ(rows_of("\"a,b\",\"c\"\n"), (Rows{{"a,b", "c"}}));
  EXPECT_EQ(rows_of("\"a\nb\",c\r\nd,e"), (Rows{{"a\nb", "c"}, {"d", "e"}}));
  EXPECT_EQ(rows_of("\"say \"\"hi\"\"\",\"\"\"\"\n"), (Rows{{"say \"hi\"", "\""}}));
  EXPECT_EQ(rows_of("x,\"\"\"\""), (Rows{{"x", "\""}}));
  EXPECT_EQ(rows_of("\"a\"\r\n\"b\"\r"), (Rows{{"a"}, {"b"}}));
  EXPECT_EQ(rows_of("\"a\rb\r\n\"\n"), (Rows{{"a\rb\r\n"}}));
  EXPECT_EQ(rows_of("5\" pipe,\"x\n", {.use_quotes = false}), (Rows{{"5\" pipe", "\"x"}}));
}

// As spreadsheets on old Macs write it, also if the file was continued in another editor.
TEST(Csv, LinesMayEndWithAReturnAlone) {
  EXPECT_EQ(rows_of("a,b\r1,2\r3,4"), (Rows{{"a", "b"}, {"1", "2"}, {"3", "4"}}));
  EXPECT_EQ(rows_of("\xef\xbb\xbf"
                    "a,b\r\r1,2\r"),
            (Rows{{"a", "b"}, {"1", "2"}}));
  EXPECT_EQ(rows_of("a,\"b\rc\"\r\"x\ny\",2\r"), (Rows{{"a", "b\nc"}, {"x\ny", "2"}}));
  EXPECT_EQ(rows_of("a,b\r1,2\n3,4\r\n5,6\r"),
            (Rows{{"a", "b"}, {"1", "2"}, {"3", "4"}, {"5", "6"}}));
  // The first line decides: there it is a letter like others.
  EXPECT_EQ(rows_of("a,b\n1\r2,3\r\n"), (Rows{{"a", "b"}, {"1\r2", "3"}}));
  EXPECT_EQ(rows_of("\"a\rb\",c\n1,2\n"), (Rows{{"a\rb", "c"}, {"1", "2"}}));
  const std::string text = "a,b\r1,2\r3\"x,4\r5,6\r";  // which the reader does not copy
  CsvReader reader = csv_reader(text);
  ASSERT_TRUE(reader.next().value());
  const uint64_t second = reader.offset();
  ASSERT_TRUE(reader.next().value());
  EXPECT_EQ(reader.row_line().value(), 2u);
  EXPECT_THAT(reader.next().error().message(), HasSubstr("x.csv:3: a quote stands inside"));
  EXPECT_EQ(rest_of(reader), (Rows{{"5", "6"}}));
  ASSERT_TRUE(reader.seek(second).ok());
  ASSERT_TRUE(reader.next().value());
  EXPECT_THAT(row_of(reader), ElementsAre("1", "2"));
  EXPECT_EQ(reader.row_line().value(), 2u);
  EXPECT_FALSE(reader.seek(second + 1).ok());
}

TEST(Csv, BytesThatAreNoTextAreNamed) {
  using namespace std::string_literals;
  const auto error = [](const std::string& content) {
    return CsvReader::open(InputStream::open(memory_reader(bytes_of(content), "x.csv")).value())
        .error();
  };
  for (const std::string& text : {"\xff\xfe"
                                  "a\0,\0b\0"s,
                                  "\xfe\xff\0a\0,"s, "a\0,\0b\0"s, "\0a\0,"s}) {
    EXPECT_EQ(error(text).kind(), ErrorKind::kCorrupt);
    EXPECT_THAT(error(text).message(), HasSubstr("'x.csv' is text in UTF-16"));
    EXPECT_THAT(error(text).hint(), HasSubstr("iconv -f UTF-16 -t UTF-8"));
  }
  EXPECT_THAT(error("PK\x03\x04rest").message(), HasSubstr("ZIP archive"));
  EXPECT_THAT(error("\xd0\xcf\x11\xe0rest").message(), HasSubstr(".xls"));
  EXPECT_THAT(error("PAR1rest").hint(), HasSubstr("write it as CSV"));
}

TEST(Csv, ErrorsNameTheProgramsOwnWordForQuotes) {
  EXPECT_THAT(csv_reader("5\" x\n").next().error().hint(), HasSubstr("set use_quotes = false"));
  EXPECT_THAT(csv_reader("5\" x\n", {.quotes_off = "give --quotes=false"}).next().error().hint(),
              HasSubstr("; or give --quotes=false, if quotes mean nothing"));
}

TEST(Csv, ErrorsNameTheLineAndReadingContinuesAfterIt) {
  const std::string content =
      "a,\"b\nc\"\n"         // lines 1 and 2
      "5\" pipe,\"\n"        // 3
      "\n"                   // 4
      "\"x\" y,2\n"          // 5
      "\"two\nlines\" no\n"  // 6, 7
      "good,row\n"           // 8
      "\"open,1\nlast\n";    // 9
  CsvReader reader = csv_reader(content);
  ASSERT_TRUE(reader.next().value());
  EXPECT_EQ(reader.row_line().value(), 1u);
  const auto message = [&] {
    const Error error = reader.next().error();
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
    EXPECT_NE(error.hint(), "");
    return error.message();
  };
  EXPECT_THAT(message(), AllOf(HasSubstr("x.csv:3: a quote stands inside"), HasSubstr("5\" pipe")));
  EXPECT_THAT(message(), AllOf(HasSubstr("x.csv:5: text follows"), HasSubstr("'\"x\" y,2'")));
  EXPECT_THAT(message(), HasSubstr("x.csv:6: text follows"));
  ASSERT_TRUE(reader.next().value());
  EXPECT_THAT(row_of(reader), ElementsAre("good", "row"));
  EXPECT_EQ(reader.row_line().value(), 8u);
  EXPECT_EQ(reader.text(), "good,row");
  EXPECT_THAT(message(), AllOf(HasSubstr("x.csv:9"), HasSubstr("not closed before the end")));
  EXPECT_FALSE(reader.next().value());
}

TEST(Csv, LimitsKeepMemoryBounded) {
  const std::string content = "a\n\"" + std::string(3'000'000, 'x') + "\nb\n";
  CsvReader reader = csv_reader(content, {}, 1'000'000);
  ASSERT_TRUE(reader.next().value());
  EXPECT_THAT(reader.next().error().message(),
              AllOf(HasSubstr("x.csv:2"), HasSubstr("1000000 bytes")));
  EXPECT_FALSE(reader.next().value());

  const std::string wide = std::string(kMostCsvFields + 5, ',') + "\nb\n";
  CsvReader many = csv_reader(wide);
  EXPECT_THAT(many.next().error().message(), HasSubstr("more than 1048576 fields"));
  EXPECT_EQ(rest_of(many), (Rows{{"b"}}));
  EXPECT_EQ(rows_of(std::string(kMostCsvFields - 1, ',')).front().size(), kMostCsvFields);

  EXPECT_FALSE(check_dialect({.delimiter = '"'}).ok());
  EXPECT_FALSE(check_dialect({.delimiter = '\n'}).ok());
  EXPECT_FALSE(check_dialect({.delimiter = '\0'}).ok());
  EXPECT_TRUE(check_dialect({.delimiter = '\t'}).ok());
}

// Rows of letters that mean something, of lengths around those the scanner works in.
Rows random_rows(Random& random, size_t longest) {
  constexpr std::string_view kLetters = "ab,\"\n\r;\t x";
  Rows rows(1 + random.uniform_below(30));
  for (auto& row : rows) {
    row.resize(1 + random.uniform_below(6));
    for (std::string& field : row) {
      const uint64_t length = random.uniform_below(random.uniform_below(4) == 0 ? longest : 12);
      const bool plain = random.uniform_below(2) == 0;
      for (uint64_t i = 0; i < length; ++i) {
        field += plain ? 'z' : kLetters[random.uniform_below(kLetters.size())];
      }
    }
  }
  return rows;
}

TEST(Csv, WrittenFieldsAreReadBack) {
  Random random(derive_key(5, {}));
  for (int round = 0; round < 300; ++round) {
    const CsvDialect dialect{.delimiter = round % 3 == 0 ? ';' : ','};
    const Rows rows = random_rows(random, round % 50 == 0 ? 400'000 : 150);
    const std::string text = csv_of(rows, dialect);
    ASSERT_EQ(rows_of(text, dialect), rows) << text.substr(0, 500);
    if (round % 10 == 0) {
      EXPECT_EQ(rows_of(gzip(bytes_of(text), 1), dialect), rows);
    }
    // The last line end may be missing, and carriage returns may precede line ends.
    EXPECT_EQ(rows_of(text.substr(0, text.size() - 1), dialect), rows);
  }
}

TEST(Csv, EveryPositionLeadsBack) {
  Random random(derive_key(6, {}));
  for (int round = 0; round < 20; ++round) {
    const Rows rows = random_rows(random, 100);
    std::string text = "\xef\xbb\xbf" + csv_of(rows) + "\n\n";
    if (round % 2 == 0) text = gzip(bytes_of(text));
    CsvReader reader = csv_reader(text);
    std::vector<uint64_t> places{reader.offset()};
    std::vector<uint64_t> lines;
    while (reader.next().value()) {
      places.push_back(reader.offset());
      lines.push_back(reader.row_line().value());
    }
    ASSERT_EQ(lines.size(), rows.size());
    for (size_t i = 0; i < places.size(); ++i) {
      reader.seek(places[i]).value();
      EXPECT_EQ(reader.offset(), places[i]);
      if (i < rows.size() && reader.next().value()) {
        EXPECT_EQ(row_of(reader), rows[i]);
        EXPECT_EQ(reader.row_line().value(), lines[i]);
      }
      const Rows rest = rest_of(reader);
      ASSERT_EQ(rest.size(), rows.size() - std::min(i + 1, rows.size()));
      if (!rest.empty()) {
        EXPECT_EQ(rest.back(), rows.back());
        EXPECT_EQ(reader.row_line().value() >= lines.back(), true);
      }
    }
    EXPECT_FALSE(reader.seek(0).ok());
    EXPECT_FALSE(reader.next().value());
    EXPECT_FALSE(reader.seek(UINT64_MAX).ok());
  }
  const std::string two = "ab\ncd\n";
  CsvReader reader = csv_reader(two);
  EXPECT_THAT(reader.seek(2).error().message(), HasSubstr("begins at byte 2"));
  EXPECT_FALSE(reader.seek(7).ok());
  reader.seek(3).value();
  EXPECT_EQ(rest_of(reader), (Rows{{"cd"}}));
}

// Rows of all rests of a file, whatever its bytes: an answer, and an end.
TEST(Csv, DamagedFilesGiveAnAnswer) {
  Random random(derive_key(8, {}));
  for (int round = 0; round < 300; ++round) {
    std::string text = csv_of(random_rows(random, 200));
    for (int flips = 0; flips < 5; ++flips) {
      text[random.uniform_below(text.size())] = ",\"\n\r\0a"[random.uniform_below(6)];
    }
    CsvReader reader = csv_reader(text);
    size_t results = 0, fields = 0;
    uint64_t before = 0;
    while (true) {
      const Result<bool> row = reader.next();
      if (row.ok() && !row.value()) break;
      ++results;
      fields += reader.fields().size();
      EXPECT_GE(reader.offset(), before);
      before = reader.offset();
      ASSERT_LE(results, text.size());
    }
    EXPECT_LE(fields, text.size() + 1);
  }
}

TEST(Csv, ADamagedStreamEndsAfterItsError) {
  std::string content;
  Random random(derive_key(9, {}));
  for (int i = 0; i < 50'000; ++i) content += std::to_string(random.next_u64()) + ",x\n";
  const std::string packed = gzip(bytes_of(content));
  const std::string cut = packed.substr(0, packed.size() / 2);
  CsvReader reader = csv_reader(cut);
  size_t good = 0;
  Result<bool> more = true;
  while ((more = reader.next()).ok() && more.value()) ++good;
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.error().kind(), ErrorKind::kCorrupt);
  EXPECT_GT(good, 20'000u);
  EXPECT_FALSE(reader.next().value());
}

}  // namespace
}  // namespace muster::inline v0_1::formats
