#include "apps/train/table_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  // Of one column.
  EXPECT_EQ(TableFile(file("a\n1\n2\n"), {}).names().size(), 1u);
  EXPECT_THAT(TableFile(file("a:b\n1:2\n"), {.delimiter = ':'}).names(), ElementsAre("a", "b"));
}

TEST_F(TableFileTest, KnowsWhatIsMissing) {
  TableFile table(file("a,b\n,?\nNA, n/a \nNaN,null\nNone,#N/A\n-,0\nnote,-1\n"), {});
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(table.next());
    EXPECT_THAT(row_of(table), ElementsAre("", "")) << i;
  }
  ASSERT_TRUE(table.next());
  EXPECT_THAT(row_of(table), ElementsAre("", "0"));
  ASSERT_TRUE(table.next());
  EXPECT_THAT(row_of(table), ElementsAre("note", "-1"));
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
  EXPECT_THAT(message_of([&] { TableFile(file("a\xff,b\n1,2\n"), {}); }), HasSubstr("no UTF-8"));
  TableFile table(file("a,b\n1,2\n3\n"), {.delimiter = ','});
  ASSERT_TRUE(table.next());
  EXPECT_THAT(error_of([&] { (void)table.next(); }).what(),
              HasSubstr("t.csv:3: the row has 1 field, and the table 2 columns"));
}

TEST(NumberOf, TakesCommasWhereTheyAreAsked) {
  EXPECT_EQ(number_of("-1.5e3", false), -1500);
  EXPECT_EQ(number_of("3,5", true), 3.5);
  EXPECT_EQ(number_of("3,5", false), std::nullopt);
  EXPECT_EQ(number_of("3.000,5", true), std::nullopt);
  EXPECT_EQ(number_of("inf", true), std::nullopt);
  EXPECT_EQ(number_of("nan", false), std::nullopt);
  EXPECT_EQ(number_of("12a", true), std::nullopt);
  EXPECT_EQ(number_of("", true), std::nullopt);
}

}  // namespace
}  // namespace muster::app
