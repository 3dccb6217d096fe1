#include "muster/estimator/explanation.h"

#include <gtest/gtest.h>

#include <cmath>

namespace muster::inline v0_1 {
namespace {

Explanation three() {
  return {.measures = {"weight"},
          .rows = {{"job", "Private", "", {0.25}},
                   {"age", "25 to 35", "", {-1.5}},
                   {"a, \"b\"", "", "", {std::nan("")}},
                   {"hours", "", "", {3}}}};
}

TEST(ExplanationTest, TheLargestComesFirstWhateverItsSign) {
  Explanation all = three();
  all.sort_by_size();
  ASSERT_EQ(all.rows.size(), 4u);
  EXPECT_EQ(all.rows[0].column, "hours");
  EXPECT_EQ(all.rows[1].column, "age");
  EXPECT_EQ(all.rows[2].column, "job");
  EXPECT_TRUE(std::isnan(all.rows[3].numbers[0]));
}

TEST(ExplanationTest, ATableHasAColumnForWhatIsThere) {
  Explanation all = three();
  all.rows.pop_back();
  all.rows.pop_back();
  EXPECT_EQ(all.to_table(),
            "column  value     weight\n"
            "job     Private     0.25\n"
            "age     25 to 35    -1.5\n");
  EXPECT_EQ(all.to_table(1),
            "column  value    weight\n"
            "job     Private    0.25\n"
            "... and 1 more\n");
  all.rows[1].output = "yes";
  all.note = "What it learned";
  EXPECT_EQ(all.to_table(),
            "What it learned\n"
            "column  value     class  weight\n"
            "job     Private            0.25\n"
            "age     25 to 35  yes      -1.5\n");
}

TEST(ExplanationTest, LongTextsAreCutBetweenLetters) {
  Explanation all{.measures = {"n"}};
  std::string umlauts;
  for (int i = 0; i < 60; ++i) umlauts += "\xc3\xa4";
  all.rows = {{umlauts, "", "", {1}}};
  std::string cut;
  for (int i = 0; i < 41; ++i) cut += "\xc3\xa4";
  EXPECT_NE(all.to_table().find("\n" + cut + "...  1\n"), std::string::npos) << all.to_table();
}

TEST(ExplanationTest, CsvQuotesWhatItMust) {
  EXPECT_EQ(three().to_csv(),
            "column,value,output,weight\n"
            "job,Private,,0.25\n"
            "age,25 to 35,,-1.5\n"
            "\"a, \"\"b\"\"\",,,nan\n"
            "hours,,,3\n");
}

}  // namespace
}  // namespace muster::inline v0_1
