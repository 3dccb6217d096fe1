#include "apps/train/table_plan.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "apps/train/test_file.h"
#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"

namespace muster::app {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A table of 60 rows, a column for each kind there is.
std::string table(const std::function<std::string(int)>& label) {
  std::string text = "id,name,town,age,rooms,flag,same,none,born,note,stray,label\n";
  for (int i = 0; i < 60; ++i) {
    text += std::to_string(i + 1000) + ",person " + std::to_string(i) + ",";
    text += (i % 7 == 0 ? "" : "town " + std::to_string(i % 3)) + ",";
    text += std::to_string(20 + i * 37 % 51) + "." + std::to_string(i % 10) + ",";
    text += std::to_string(i % 5 + 1) + "," + (i % 2 == 0 ? "yes" : "no") + ",1,NA,";
    text += "2024-01-" + std::to_string(10 + i % 20) + ",text " + std::to_string(i % 41) + ",";
    text += (i == 3 ? "unknown" : std::to_string(i * 11 % 53) + ".5") + "," + label(i) + "\n";
  }
  return text;
}
std::string yes_no(int i) { return i % 3 == 0 ? "yes" : "no"; }

class TablePlanTest : public ::testing::Test {
 protected:
  TablePlan plan(const std::string& text, TrainFlags flags = {}) const {
    flags.csv = written(folder_ / "t.csv", text);
    if (flags.label.empty()) flags.label = "label";
    return plan_table(flags, {}, held_out(0, 0));
  }
  std::string fails(const std::string& text, const TrainFlags& flags = {}) const {
    return error_of([&] { (void)plan(text, flags); }).what();
  }
  const TempDirectory folder_;
};

TEST_F(TablePlanTest, FindsOutWhatColumnsAre) {
  const TablePlan made = plan(table(yes_no));
  std::map<std::string, PlannedColumn> columns;
  for (const PlannedColumn& column : made.columns) columns[column.name] = column;
  ASSERT_EQ(columns.size(), 5u);
  EXPECT_EQ(columns.at("town").kind, ColumnKind::kCategory);
  EXPECT_EQ(columns.at("town").missing, 9);
  EXPECT_EQ(columns.at("town").different, 3);
  EXPECT_EQ(columns.at("town").words.size(), 4u);
  EXPECT_THAT(columns.at("town").words, Contains(""));
  EXPECT_EQ(columns.at("age").kind, ColumnKind::kNumber);
  EXPECT_EQ(columns.at("rooms").kind, ColumnKind::kFew);
  EXPECT_THAT(columns.at("rooms").steps, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(columns.at("flag").words, ElementsAre("no", "yes"));
  EXPECT_EQ(columns.at("stray").kind, ColumnKind::kNumber);
  EXPECT_EQ(columns.at("stray").missing, 1);
  EXPECT_THAT(made.notes, ElementsAre("'stray': fields that are not numbers count as missing: 1"));
  std::map<std::string, std::string> left_out;
  for (const LeftOut& column : made.left_out) left_out[column.name] = column.why;
  ASSERT_EQ(left_out.size(), 6u);
  EXPECT_THAT(left_out.at("id"), HasSubstr("identifies a row"));
  EXPECT_THAT(left_out.at("name"), HasSubstr("identifies a row"));
  EXPECT_THAT(left_out.at("same"), HasSubstr("one value"));
  EXPECT_THAT(left_out.at("none"), HasSubstr("no values"));
  EXPECT_THAT(left_out.at("born"), HasSubstr("dates"));
  EXPECT_THAT(left_out.at("note"), HasSubstr("different texts"));
  EXPECT_THAT(made.classes, ElementsAre("no", "yes"));
  EXPECT_EQ(made.model, "boosted_trees");
  EXPECT_EQ(made.rows, 60);
}

TEST_F(TablePlanTest, TheLabelSaysTheTask) {
  EXPECT_THAT(plan(table([](int i) { return std::to_string(9 + i % 3); })).classes,
              ElementsAre("9", "10", "11"));
  EXPECT_THAT(
      plan(table([](int i) { return std::to_string(i % 3); }), {.task = "regression"}).classes,
      IsEmpty());
  EXPECT_THAT(plan(table([](int i) { return std::to_string(i % 7) + ".5"; })).classes, IsEmpty());
  EXPECT_THAT(plan(table([](int i) { return std::to_string(i * 7); })).classes, IsEmpty());
  EXPECT_THAT(
      plan(table([](int i) { return std::to_string(i % 2) + ".5"; }), {.task = "classification"})
          .classes,
      ElementsAre("0.5", "1.5"));
  EXPECT_THAT(plan(table(yes_no), {.positive = "no"}).classes, ElementsAre("yes", "no"));
}

TEST_F(TablePlanTest, LeavesOutRowsAndColumnsAsItIsTold) {
  const TablePlan made = plan(table([](int i) { return i < 5 ? "?" : yes_no(i); }),
                              {.exclude = "town, age", .weight = "rooms"});
  EXPECT_EQ(made.rows, 55);
  EXPECT_EQ(made.without_label, 5);
  EXPECT_THAT(made.notes, Contains(HasSubstr("ignored 5 rows without 'label': '?' in 5")));
  for (const PlannedColumn& column : made.columns) {
    EXPECT_NE(column.name, "town");
    EXPECT_NE(column.name, "age");
    EXPECT_NE(column.name, "rooms");
  }
}

// Of this many rows, by their number.
std::string rows(const std::string& names, int count, const std::function<std::string(int)>& row) {
  std::string text = names + "\n";
  for (int i = 0; i < count; ++i) text += row(i) + "\n";
  return text;
}

TEST_F(TablePlanTest, AFrequentWordIsAClass) {
  const auto labels = [](const std::string& word, int one_in) {
    return rows("a,label", 200, [&](int i) {
      return fmt::format("{},{}", i * 7 % 90, i % one_in == 0 ? word : i % 2 == 0 ? "yes" : "no");
    });
  };
  for (const std::string word : {"none", "NA", "-", "null", "N/A", "."}) {
    const TablePlan frequent = plan(labels(word, 4));
    EXPECT_EQ(frequent.classes.size(), 3u) << word;
    EXPECT_THAT(frequent.classes, Contains(word));
    EXPECT_EQ(frequent.rows, 200);
    EXPECT_THAT(
        frequent.notes,
        Contains(HasSubstr(
            "'" + word +
            "' is a class of 'label', in 50 rows; if it means a missing value, pass --missing=" +
            word)));
    // Rare, it is a label that is missing.
    const TablePlan rare = plan(labels(word, 50));
    EXPECT_THAT(rare.classes, ElementsAre("no", "yes")) << word;
    EXPECT_EQ(rare.without_label, 4);
    EXPECT_THAT(rare.notes,
                Contains(HasSubstr("ignored 4 rows without 'label': '" + word +
                                   "' in 4, which count as missing; with --missing=empty")));
  }
  // What no person writes never is one, and is told.
  for (const std::string word : {"?", "nan"}) {
    const TablePlan made = plan(labels(word, 4));
    EXPECT_EQ(made.classes.size(), 2u);
    EXPECT_THAT(made.notes, ElementsAre(AllOf(HasSubstr("ignored 50 rows without 'label'"),
                                              HasSubstr("'" + word + "' in 50"),
                                              HasSubstr("--missing=empty"))));
    EXPECT_THAT(
        fails(rows("a,label", 60,
                   [&](int i) { return fmt::format("{},{}", i % 9, i % 2 == 0 ? word : "sick"); })),
        AllOf(HasSubstr("is 'sick' in all 30 rows"), HasSubstr("'" + word + "' in 30"),
              HasSubstr("--missing=empty")));
  }
  // One of two, however rare.
  const TablePlan two = plan(rows(
      "a,label", 100, [](int i) { return fmt::format("{},{}", i % 9, i % 50 == 0 ? "-" : "+"); }));
  EXPECT_THAT(two.classes, ElementsAre("+", "-"));
  // As it is told.
  EXPECT_EQ(plan(labels("none", 4), {.missing = "none"}).classes.size(), 2u);
  EXPECT_EQ(plan(labels("?", 4), {.missing = "empty"}).classes.size(), 3u);
  EXPECT_EQ(plan(labels("x", 4), {.missing = "x,y"}).classes.size(), 2u);
}

TEST_F(TablePlanTest, AWordIsATextAmongTextsAndMissingAmongNumbers) {
  const TablePlan made = plan(rows("country,age,grade,label", 120, [](int i) {
    const char* countries[] = {"NA", "DE", "", "FR"};
    return fmt::format("{},{},{},{}", countries[i % 4], i % 6 == 0 ? "NA" : std::to_string(i % 50),
                       i % 2 == 0 ? "-" : "+", yes_no(i));
  }));
  ASSERT_EQ(made.columns.size(), 3u);
  EXPECT_THAT(made.columns[0].words, ElementsAre("DE", "FR", "NA", ""));
  EXPECT_EQ(made.columns[0].missing, 30);
  EXPECT_EQ(made.columns[1].kind, ColumnKind::kNumber);
  EXPECT_EQ(made.columns[1].missing, 20);
  EXPECT_THAT(made.columns[2].words, ElementsAre("+", "-"));
  EXPECT_THAT(
      made.notes,
      ElementsAre(
          "'-' is an ordinary text in 'grade'; if it means a missing value, pass --missing=-",
          "'NA' is an ordinary text in 'country'; if it means a missing value, pass --missing=NA",
          "besides empty fields these count as missing: 'NA' (20); --missing sets them"));
}

TEST_F(TablePlanTest, NumbersAreReadAsTheyAreWritten) {
  // Between tabs, as spreadsheets of half the world write them.
  const TablePlan tabs = plan(rows("preis\teinwohner\tanteil\tlabel", 90, [](int i) {
    return fmt::format("{},{}\t{}.{:03}\t{},5 %\t{}", i, i % 90, i % 7 + 1, i * 37 % 1000, i,
                       yes_no(i));
  }));
  ASSERT_EQ(tabs.columns.size(), 3u);
  for (const PlannedColumn& column : tabs.columns) {
    EXPECT_EQ(column.kind, ColumnKind::kNumber) << column.name;
    EXPECT_TRUE(column.format.decimal_comma) << column.name;
    EXPECT_EQ(column.missing, 0) << column.name;
  }
  EXPECT_GE(tabs.columns[1].least, 1000);  // the others say what its points are
  EXPECT_EQ(tabs.columns[2].least, 0.005);
  EXPECT_THAT(tabs.notes, Contains(HasSubstr("a comma is the mark of fractions in 'preis', "
                                             "'einwohner', 'anteil'")));
  EXPECT_THAT(tabs.notes, Contains(HasSubstr("'anteil' is read as parts of 1")));

  const TablePlan money = plan(rows("price,weight,share,label", 90, [](int i) {
    return fmt::format("\"{}${},{:03}.50{}\",{} kg,{}%,{}", i % 5 == 0 ? "(" : "", i % 9 + 1, i,
                       i % 5 == 0 ? ")" : "", i % 50, i, yes_no(i));
  }));
  ASSERT_EQ(money.columns.size(), 3u);
  EXPECT_EQ(money.columns[0].format.unit, "$");
  EXPECT_LT(money.columns[0].least, -1000);
  EXPECT_GT(money.columns[0].most, 9000);
  EXPECT_EQ(money.columns[1].most, 49);
  EXPECT_EQ(money.columns[2].most, 0.89);
  EXPECT_THAT(money.notes, Contains("'weight' is read without its unit 'kg'"));
}

TEST_F(TablePlanTest, WhatCannotBeKnownIsTold) {
  const auto table = [](const char* mark) {
    return rows("x\tlabel", 60, [&](int i) {
      return fmt::format("{}{}{:03}\t{}", i % 9 + 1, mark, i * 13 % 1000, yes_no(i));
    });
  };
  const TablePlan comma = plan(table(","));
  EXPECT_GE(comma.columns[0].least, 1000);
  EXPECT_THAT(comma.notes, ElementsAre(AllOf(HasSubstr("separates thousands in 'x'"),
                                             HasSubstr("--decimal=,"))));
  EXPECT_LT(plan(table(","), {.decimal = ","}).columns[0].most, 10);
  const TablePlan point = plan(table("."));
  EXPECT_LT(point.columns[0].most, 10);
  EXPECT_THAT(point.notes, ElementsAre(HasSubstr("a point is the decimal mark in 'x'")));
  EXPECT_GE(plan(table("."), {.decimal = ","}).columns[0].least, 1000);
  // Texts where units differ.
  const TablePlan units = plan(rows("x,label", 60, [](int i) {
    return fmt::format("{} {},{}", i % 5, i % 2 == 0 ? "kg" : "lb", yes_no(i));
  }));
  EXPECT_EQ(units.columns[0].kind, ColumnKind::kCategory);
  EXPECT_THAT(units.notes, ElementsAre(HasSubstr("several units ('kg', 'lb')")));
  // And where too many values are none.
  const TablePlan infinite = plan(rows("x,y,label", 60, [](int i) {
    return (i % 9 == 0 ? "inf" : fmt::format("{}.5", i * 7 % 61)) +
           fmt::format(",{},{}", i % 5, yes_no(i));
  }));
  EXPECT_THAT(
      infinite.notes,
      ElementsAre(HasSubstr("'x' is read as text: 7 of 60 values are not numbers, such as 'inf'")));
  // Also where so many different texts are left out, but not where the user leaves them out.
  const std::string many = rows("x,y,label", 60, [](int i) {
    return (i % 9 == 0 ? "inf" : fmt::format("{}.5", i)) + fmt::format(",{},{}", i % 5, yes_no(i));
  });
  const TablePlan left_out = plan(many);
  ASSERT_EQ(left_out.left_out.size(), 1u);
  EXPECT_THAT(left_out.left_out[0].why, HasSubstr("different texts"));
  EXPECT_THAT(left_out.notes, ElementsAre(HasSubstr("'x' is read as text: 7 of 60 values")));
  EXPECT_TRUE(plan(many, {.exclude = "x"}).notes.empty());
}

TEST_F(TablePlanTest, TextsThatDifferInCaseAreTold) {
  std::string text = "size,town,label\n";
  for (int i = 0; i < 60; ++i)
    text += fmt::format("{},{},{}\n", i, i % 2 == 0 ? "Oslo" : "oslo",
                        i % 3 == 0 ? "Yes" : (i % 3 == 1 ? "yes" : "No"));
  EXPECT_THAT(
      plan(text).notes,
      ElementsAre(
          "'Yes' and 'yes' are different texts in 'label'; if they mean the same, write them alike",
          "'Oslo' and 'oslo' are different texts in 'town'; if they mean the same, write them "
          "alike"));
  EXPECT_THAT(plan(table(yes_no)).notes, Not(Contains(HasSubstr("different texts"))));
}

TEST_F(TablePlanTest, NumbersThatFloat32RoundsAreDoubles) {
  const TablePlan made = plan(rows("day,x,label", 90, [](int i) {
    return fmt::format("{},{}.25,{}", 20180101 + i % 31, i, yes_no(i));
  }));
  ASSERT_EQ(made.columns.size(), 2u);
  EXPECT_TRUE(made.columns[0].in_double);
  EXPECT_FALSE(made.columns[1].in_double);
  EXPECT_THAT(made.notes, IsEmpty());
}

TEST_F(TablePlanTest, NumbersThatAreRoundedAreTold) {
  // 8 bytes hold identifiers of 16 digits, and not those of 17.
  const auto ids = [&](int64_t first) {
    return plan(rows("user,x,label", 90,
                     [&](int i) { return fmt::format("{},{},{}", first + i % 20, i, yes_no(i)); }));
  };
  EXPECT_THAT(ids(1234567890123456).notes, IsEmpty());
  EXPECT_THAT(ids(12345678901234567).notes,
              ElementsAre(AllOf(HasSubstr("'user' holds whole numbers above 9007199254740992"),
                                HasSubstr("--exclude"))));
  // A label has 4.
  const auto label = [&](int first) {
    return plan(
        rows("x,label", 90, [&](int i) { return fmt::format("{},{}", i * 7 % 50, first + i); }));
  };
  EXPECT_THAT(label(180101).notes, IsEmpty());
  EXPECT_THAT(label(20180101).notes,
              ElementsAre(AllOf(HasSubstr("'label' is learned and predicted in 4 bytes"),
                                HasSubstr("to within 1;"), HasSubstr("subtract 20180101"))));
}

TEST_F(TablePlanTest, AColumnWithACommaInItsNameIsExcluded) {
  std::string text = "\"a, b\",c,label\n";
  for (int i = 0; i < 30; ++i)
    text += std::to_string(i % 9) + "," + std::to_string(i % 7) + "," + yes_no(i) + "\n";
  const TablePlan made = plan(text, {.exclude = "a, b"});
  ASSERT_EQ(made.columns.size(), 1u);
  EXPECT_EQ(made.columns[0].name, "c");
}

TEST_F(TablePlanTest, TheRowsThatAreHeldOutAreNotLookedAt) {
  TrainFlags flags{.label = "label"};
  flags.csv = written(folder_ / "t.csv", table(yes_no));
  const auto odd = [](int64_t row) { return row % 2 == 1; };
  const TablePlan made = plan_table(flags, {}, odd);
  EXPECT_EQ(made.rows, 30);
  for (const LeftOut& column : made.left_out) {
    if (column.name == "flag") {
      EXPECT_THAT(column.why, HasSubstr("one value"));
    }
  }
  EXPECT_EQ(made.left_out.size(), 7u);
}

TEST_F(TablePlanTest, SaysWhatIsWrong) {
  EXPECT_THAT(fails(table(yes_no), {.label = "lable"}),
              AllOf(HasSubstr("--label: "), HasSubstr("has no column 'lable'"),
                    HasSubstr("did you mean 'label'")));
  EXPECT_THAT(fails(table(yes_no), {.exclude = "towns"}), HasSubstr("did you mean 'town'"));
  EXPECT_THAT(fails(table(yes_no), {.exclude = "town,label"}),
              HasSubstr("--exclude and --label name the same column, 'label'"));
  EXPECT_THAT(fails(table(yes_no), {.weight = "agee"}), HasSubstr("did you mean 'age'"));
  EXPECT_THAT(fails(table(yes_no), {.weight = "label"}), HasSubstr("same column"));
  EXPECT_THAT(fails(table([](int) { return "yes"; })), HasSubstr("is 'yes' in all 60 rows"));
  EXPECT_THAT(fails("# by hand\na,label\n"), HasSubstr("the first line is a comment"));
  EXPECT_THAT(fails("a,label\n"), HasSubstr("has no rows"));
  EXPECT_THAT(fails(""), HasSubstr("is empty"));
  EXPECT_THAT(fails("a,label\n1,x\n2,y\n"), HasSubstr("2 rows with the label"));
  EXPECT_THAT(fails(table([](int) { return ""; })), HasSubstr("60 rows lack the label"));
  EXPECT_THAT(fails(table(yes_no), {.positive = "yess"}), HasSubstr("did you mean 'yes'"));
  EXPECT_THAT(fails(table([](int i) { return std::to_string(i % 3); }), {.positive = "1"}),
              HasSubstr("there are 3 classes"));
  EXPECT_THAT(fails(table(yes_no), {.task = "regression"}), HasSubstr("needs numbers"));
  std::string many = "a,label\n";
  for (int i = 0; i < 300; ++i)
    many += std::to_string(i * 7 % 100) + "," + "c" + std::to_string(i % 150) + "\n";
  EXPECT_THAT(fails(many), HasSubstr("at most 100 classes"));
  std::string nothing = "id,label\n";
  for (int i = 0; i < 30; ++i) nothing += std::to_string(i) + "," + yes_no(i) + "\n";
  EXPECT_THAT(fails(nothing), AllOf(HasSubstr("no column to learn 'label' from"),
                                    HasSubstr("id identifies a row")));
  EXPECT_THAT(fails(table([](int i) { return i % 2 == 0 ? "K\xf6ln" : "Bonn"; })),
              HasSubstr("not UTF-8"));
}

TEST_F(TablePlanTest, JsonKeepsAllOfIt) {
  TablePlan made = plan(table([](int i) { return i == 5 ? "" : yes_no(i); }), {.weight = "rooms"});
  made.columns.front().boundaries = {0.1, 1e-300};
  made.label_mean = 1.0 / 3;
  EXPECT_EQ(plan_from_json(to_json(made).dump(), "t.json"), made);
  for (const char* bad : {"", "[]", "{\"label\": 3}", "{}"})
    EXPECT_EQ(error_of([&] { (void)plan_from_json(bad, "t.json"); }).kind(), ErrorKind::kCorrupt);
}

TEST(HeldOut, IsAPartThatStaysWhereItIs) {
  const HeldOut first = held_out(0.2, 1), again = held_out(0.2, 1), other = held_out(0.2, 2);
  int count = 0, differ = 0;
  for (int64_t row = 0; row < 10000; ++row) {
    EXPECT_EQ(first(row), again(row));
    count += first(row) ? 1 : 0;
    differ += first(row) != other(row) ? 1 : 0;
    EXPECT_FALSE(held_out(0, 1)(row));
  }
  EXPECT_NEAR(count, 2000, 150);
  EXPECT_GT(differ, 2500);
}

}  // namespace
}  // namespace muster::app
