#include "apps/train/table_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "apps/train/test_file.h"
#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"

namespace muster::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TableFileTest : public ::testing::Test {
 protected:
  std::string file(std::string_view text) const { return written(folder_ / "t.csv", text); }
  const TempDirectory folder_;
};

std::vector<std::string> row_of(const TableFile& table) {
  std::vector<std::string> row;
  for (size_t i = 0; i < table.names().size(); ++i) row.emplace_back(table.field(i));
  return row;
}

TEST_F(TableFileTest, ReadsWhatSpreadsheetsWrite) {
  TableFile table(file("\xef\xbb\xbf"
                       "name, home town ,n\r\n"
                       "\"Doe, \"\"J\"\"\", K\xc3\xb6ln ,1\r\n"
                       "x,\"two\nlines\", 2\r\n"),
                  {});
  EXPECT_EQ(table.delimiter(), ',');
  EXPECT_THAT(table.names(), ElementsAre("name", "home town", "n"));
  ASSERT_TRUE(table.next());
  EXPECT_EQ(table.row(), 0);
  EXPECT_THAT(row_of(table), ElementsAre("Doe, \"J\"", "K\xc3\xb6ln", "1"));
  ASSERT_TRUE(table.next());
  EXPECT_EQ(table.row(), 1);
  EXPECT_THAT(row_of(table), ElementsAre("x", "two\nlines", "2"));
  EXPECT_FALSE(table.next());
}

TEST_F(TableFileTest, FindsTheDelimiter) {
  for (const char delimiter : {',', ';', '\t', '|'}) {
    std::string text = "a_b_c\n1_2,5_x\n3_4,5_y\n";
    for (char& letter : text) {
      if (letter == '_') letter = delimiter;
      if (letter == ',' && delimiter == ',') letter = '.';
    }
    if (delimiter == ',') text = "a,b,c\n1,2.5,x\n3,4.5,y\n";
    EXPECT_EQ(TableFile(file(text), {}).delimiter(), delimiter);
  }
  // A file of one column.
  EXPECT_EQ(TableFile(file("a\n1\n2\n"), {}).names().size(), 1u);
  EXPECT_THAT(TableFile(file("a:b\n1:2\n"), {.delimiter = ':'}).names(), ElementsAre("a", "b"));
}

// A comma that is the mark of fractions divides nothing, also if no row of names is in the way.
TEST_F(TableFileTest, AFirstLineMayNameTheDelimiter) {
  for (const std::string delimiter : {",", ";", "\t", "|"}) {
    TableFile table(file("sep=" + delimiter + "\r\na" + delimiter + "b\r\n1" + delimiter + "2\r\n"),
                    {});
    EXPECT_EQ(std::string(1, table.delimiter()), delimiter);
    EXPECT_THAT(table.names(), ElementsAre("a", "b"));
    ASSERT_TRUE(table.next());
    EXPECT_THAT(row_of(table), ElementsAre("1", "2"));
  }
  // It divides a table of one kind of row that would be divided otherwise.
  EXPECT_THAT(TableFile(file("sep=;\na,b;c\n1,2;3\n"), {}).names(), ElementsAre("a,b", "c"));
  // A column may be called so.
  EXPECT_THAT(TableFile(file("sep=x\n1\n"), {}).names(), ElementsAre("sep=x"));
  EXPECT_THAT(TableFile(file("sep=,b\n1,2\n"), {}).names(), ElementsAre("sep=", "b"));
}

TEST_F(TableFileTest, ADecimalCommaIsNoDelimiter) {
  for (const char delimiter : {';', '\t', '|'}) {
    const std::string text = "1,5_2,5_3,5\n1,25_2,5_7,5\n";
    std::string given = text;
    std::ranges::replace(given, '_', delimiter);
    TableFile table(file(given), {.header = false});
    EXPECT_EQ(table.delimiter(), delimiter);
    ASSERT_TRUE(table.next());
    EXPECT_THAT(row_of(table), ElementsAre("1,5", "2,5", "3,5"));
  }
}

TEST_F(TableFileTest, OtherLineEndsAndBlanks) {
  TableFile table(file("a,b\r\xc2\xa0"
                       "1\xc2\xa0,x\r2,y"),
                  {});
  ASSERT_TRUE(table.next());
  EXPECT_THAT(row_of(table), ElementsAre("1", "x"));
  ASSERT_TRUE(table.next());
  EXPECT_THAT(row_of(table), ElementsAre("2", "y"));
  EXPECT_FALSE(table.next());
}

TEST_F(TableFileTest, ColumnsWithoutNames) {
  EXPECT_THAT(TableFile(file(",a,\n0,1,2\n"), {}).names(),
              ElementsAre("(column 1)", "a", "(column 3)"));
  TableFile table(file("5,x\n6,y\n"), {.header = false});
  EXPECT_THAT(table.names(), ElementsAre("0", "1"));
  ASSERT_TRUE(table.next());
  EXPECT_THAT(row_of(table), ElementsAre("5", "x"));
  ASSERT_TRUE(table.next());
  EXPECT_EQ(table.row(), 1);
  EXPECT_FALSE(table.next());
}

TEST_F(TableFileTest, SaysWhatIsWrong) {
  EXPECT_EQ(error_of([&] { TableFile(folder_ / "no.csv", {}); }).kind(), ErrorKind::kNotFound);
  EXPECT_THAT(error_of([&] { TableFile(file(""), {}); }).what(), HasSubstr("is empty"));
  EXPECT_THAT(message_of([&] { TableFile(file("a,b,a\n1,2,3\n"), {}); }),
              HasSubstr("two columns called 'a'"));
  EXPECT_THAT(error_of([&] { TableFile(file("0,5.5,5.5\n1,2,3\n"), {}); }).hint(),
              HasSubstr("--header=false"));
  EXPECT_THAT(message_of([&] { TableFile(file("a\xff,b\n1,2\n"), {}); }), HasSubstr("not UTF-8"));
  TableFile table(file("a,b\n1,2\n3\n"), {.delimiter = ','});
  ASSERT_TRUE(table.next());
  EXPECT_THAT(error_of([&] { (void)table.next(); }).what(),
              HasSubstr("t.csv:3: the row has 1 field, and the table 2 columns"));
}

// The line ends are often the cause.
TEST_F(TableFileTest, RowsOfOtherLengthsNameTheirCause) {
  const auto hint = [&](std::string_view text) {
    return error_of([&] {
             TableFile table(file(text), {});
             while (table.next()) {
             }
           })
        .hint();
  };
  EXPECT_THAT(hint("a,b\n1,2\r3,4\n"), HasSubstr("holds \\r"));
  EXPECT_THAT(hint("a,b\n1,2,\n"), HasSubstr("ends with a delimiter, and the first row does not"));
  EXPECT_THAT(hint("a,b\n1,2,3\n"), HasSubstr("--delimiter"));
  EXPECT_THAT(hint("a,b\n1\n"), HasSubstr("--delimiter"));
}

TEST_F(TableFileTest, ErrorsNameTheCommandsOwnFlags) {
  const std::string path = file("a,b\n1,x\n5\" y,2\n");
  TableFile table(path, {.delimiter = ','});
  ASSERT_TRUE(table.next());
  const Error error = error_of([&] { (void)table.next(); });
  EXPECT_THAT(error.hint(), HasSubstr("give --quotes=false"));
  TableFile other(path, {.delimiter = ',', .quotes = false});
  ASSERT_TRUE(other.next());
  ASSERT_TRUE(other.next());
  EXPECT_THAT(row_of(other), ElementsAre("5\" y", "2"));
  EXPECT_THAT(error_of([&] {
                TableFile(file(std::string("\xff\xfe"
                                           "a\0",
                                           4)),
                          {});
              }).what(),
              HasSubstr("UTF-16"));
}

}  // namespace
}  // namespace muster::app
