#include "muster/base/text_table.h"

#include <gtest/gtest.h>

namespace muster::inline v0_1 {
namespace {

TEST(TextTableTest, ColumnsAreAsWideAsTheirLetters) {
  TextTable table({"name", ">rows", "note"});
  table.add({"K\xc3\xb6ln", "1,000", "x"});
  table.add({"Bonn-Bad", "7", ""});
  EXPECT_EQ(table.text("  "),
            "  name       rows  note\n"
            "  K\xc3\xb6ln      1,000  x\n"
            "  Bonn-Bad      7\n");
}

// An untrusted name neither steers a terminal nor looks like a row of its own.
TEST(TextTableTest, ARowIsALine) {
  TextTable table({"name", ">rows"});
  table.add({"a\x1b[2J\nb  7", "1"});
  EXPECT_EQ(table.text(""), "name              rows\na\\x1b[2J\\x0ab  7     1\n");
}

TEST(TextTableTest, LettersAndCommas) {
  EXPECT_EQ(letters_in("K\xc3\xb6ln"), 4u);
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1234567), "1,234,567");
}

}  // namespace
}  // namespace muster::inline v0_1
