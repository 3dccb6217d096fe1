#include "apps/train/report.h"

#include <gtest/gtest.h>

namespace muster::app {
namespace {

Report report() {
  Report made("people.csv");
  made.section("Columns");
  made.table({{"name", ">rows"}, {{"a|b", "7"}, {"\xc3\xa4", "1000"}}});
  made.line("the baseline says '*'");
  made.command("muster serve m/export");
  return made;
}

TEST(ReportTest, IsTextForATerminal) {
  EXPECT_EQ(report().to_text(),
            "people.csv\n"
            "\n"
            "Columns\n"
            "  name  rows\n"
            "  a|b      7\n"
            "  \xc3\xa4     1000\n"
            "  the baseline says '*'\n"
            "  muster serve m/export\n");
}

TEST(ReportTest, IsMarkdown) {
  EXPECT_EQ(report().to_markdown(),
            "# people.csv\n\n"
            "## Columns\n\n"
            "| name | rows |\n"
            "|---|---:|\n"
            "| a\\|b | 7 |\n"
            "| \xc3\xa4 | 1000 |\n\n"
            "the baseline says '\\*'\n\n"
            "    muster serve m/export\n\n");
}

TEST(ReportTest, TablesAreCsv) {
  EXPECT_EQ(to_csv({{"a", ">b"}, {{"x, y", "1"}}}), "a,b\n\"x, y\",1\n");
}

}  // namespace
}  // namespace muster::app
