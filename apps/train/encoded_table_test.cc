#include "apps/train/encoded_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "apps/train/test_file.h"
#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/tensor/libtorch.h"

namespace muster::app {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TablePlan people() {
  return {.label = "rich",
          .classes = {"0", "1"},
          .label_is_number = true,
          .columns = {{.name = "age"},
                      {.name = "town", .kind = ColumnKind::kCategory, .words = {"Rome", ""}}}};
}

class EncodedTableTest : public ::testing::Test {
 protected:
  std::string file(std::string_view text) const { return written(folder_ / "t.csv", text); }
  const TempDirectory folder_;
};

std::vector<float> floats_of(const Tensor& values) {
  const Tensor flat = values.to(kFloat32).contiguous();
  return {flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel()};
}

TEST_F(EncodedTableTest, NumbersAndIds) {
  const EncodedTable table =
      encode_file(file("town,rich,age\nRome,1,20\nOslo,0.0,x\n?,1.0,\nRome,,30\nRome,7,3\n"), {},
                  people(), true);
  EXPECT_EQ(table.rows, 3);
  EXPECT_EQ(table.without_label, 2);  // one is empty, and one is an unknown class
  EXPECT_EQ(table.strange, 1);
  EXPECT_THAT(floats_of(table.labels), ElementsAre(1, 0, 1));
  EXPECT_THAT(floats_of(table.features.at("town")), ElementsAre(0, 2, 1));
  const std::vector<float> age = floats_of(table.features.at("age"));
  EXPECT_EQ(age[0], 20);
  EXPECT_TRUE(std::isnan(age[1]));
  EXPECT_TRUE(std::isnan(age[2]));
  EXPECT_THAT(floats_of(table.sample(2).features.at("town")), ElementsAre(0, 2));
}

TEST_F(EncodedTableTest, NewRowsNeedNoLabel) {
  const EncodedTable table = encode_file(
      file("age;town\n1,5;Rome\n"), {},
      [] {
        TablePlan plan = people();
        plan.columns.front().format.decimal_comma = true;
        return plan;
      }(),
      false);
  EXPECT_EQ(table.rows, 1);
  EXPECT_FALSE(table.labels.defined());
  EXPECT_THAT(floats_of(table.features.at("age")), ElementsAre(1.5F));
  EXPECT_THAT(message_of([&] { (void)encode_file(file("agge,town\n1,x\n"), {}, people(), false); }),
              HasSubstr("has no column 'age'"));
}

TEST_F(EncodedTableTest, WordsAreMissingAmongNumbersAndTextsAmongTexts) {
  TablePlan plan = people();
  plan.classes = {"-", "none"};
  plan.label_is_number = false;
  plan.columns[1].words = {"NA", ""};
  const std::string path =
      file("age,town,rich\n1,NA,none\nNA,?,-\n-,,NA\n3,NA,?\nnone,Rome,none\n");
  const EncodedTable table = encode_file(path, {}, plan, true);
  EXPECT_EQ(table.rows, 3);
  EXPECT_EQ(table.without_label, 2);
  EXPECT_EQ(table.strange, 0);
  EXPECT_THAT(floats_of(table.labels), ElementsAre(1, 0, 1));
  EXPECT_THAT(floats_of(table.features.at("town")), ElementsAre(0, 1, 2));
  plan.missing = {"none"};
  const EncodedTable as_told = encode_file(path, {}, plan, false);
  EXPECT_EQ(as_told.strange, 2);  // NA and -
}

TEST_F(EncodedTableTest, NumbersThatFloat32RoundsAreDoubles) {
  TablePlan plan = people();
  plan.columns[0].in_double = true;
  const Tensor ages = encode_file(file("age,town\n20180131,x\n20180132,x\n,x\n"), {}, plan, false)
                          .features.at("age");
  EXPECT_EQ(ages.scalar_type(), kFloat64);
  EXPECT_EQ(ages[0].item<double>(), 20180131);
  EXPECT_EQ(ages[1].item<double>(), 20180132);
}

TEST_F(EncodedTableTest, WeightsAndNumbersAreChecked) {
  TablePlan plan = people();
  plan.weight = "w";
  const EncodedTable table =
      encode_file(file("age,town,rich,w\n1,x,1,2.5\n1,x,1,\n"), {}, plan, true);
  EXPECT_THAT(floats_of(table.weights), ElementsAre(2.5F));
  EXPECT_EQ(table.dataset(plan).cardinality(), 1);
  EXPECT_THAT(message_of([&] {
                (void)encode_file(file("age,town,rich,w\n1,x,1,1\n1,x,1,-1\n"), {}, plan, true);
              }),
              AllOf(HasSubstr("row 2"), HasSubstr("the weight 'w'"), HasSubstr("'-1'")));
  plan = people();
  plan.classes.clear();
  EXPECT_THAT(
      message_of([&] { (void)encode_file(file("age,town,rich\n1,x,much\n"), {}, plan, true); }),
      AllOf(HasSubstr("row 1"), HasSubstr("'much'")));
  // As a float it would be infinite.
  EXPECT_THAT(
      message_of([&] { (void)encode_file(file("age,town,rich\n1,x,1e300\n"), {}, plan, true); }),
      AllOf(HasSubstr("row 1"), HasSubstr("'1e300'")));
  plan.weight = "w";
  EXPECT_THAT(
      message_of([&] { (void)encode_file(file("age,town,rich,w\n1,x,1,1e39\n"), {}, plan, true); }),
      AllOf(HasSubstr("row 1"), HasSubstr("the weight 'w'"), HasSubstr("'1e39'")));
}

TEST_F(EncodedTableTest, BucketsHoldAsManyRowsEach) {
  TablePlan plan{.label = "y", .columns = {{.name = "x"}, {.name = "heavy"}}};
  EncodedTable table{.rows = 1200};
  table.labels = torch::arange(1200, kFloat32);
  table.features["x"] = torch::arange(1200, kFloat32);
  // Nine of ten rows are 0, and the others share the other buckets.
  table.features["heavy"] = (torch::arange(1200) - 1080).clamp_min(0).to(kFloat32);
  add_statistics(table, plan);
  ASSERT_EQ(plan.columns[0].boundaries.size(), 11u);
  for (size_t i = 0; i < 11; ++i)
    EXPECT_EQ(plan.columns[0].boundaries[i], 100.0 * static_cast<double>(i + 1));
  EXPECT_NEAR(plan.columns[0].mean, 599.5, 1e-6);
  EXPECT_NEAR(plan.columns[0].deviation, std::sqrt((1200.0 * 1200 - 1) / 12), 1e-6);
  EXPECT_NEAR(plan.label_mean, 599.5, 1e-6);
  ASSERT_EQ(plan.columns[1].boundaries.size(), 11u);
  EXPECT_EQ(plan.columns[1].boundaries.front(), 1);
  EXPECT_GT(plan.columns[1].boundaries[5], 40);
}

TEST_F(EncodedTableTest, ColumnsThatTellTheLabelAreNamed) {
  const Tensor rows = torch::arange(400);
  EncodedTable table{.rows = 400};
  table.labels = rows.remainder(2);
  table.features["paid"] = table.labels.clone();
  table.features["threshold"] = (table.labels * 100 + rows).to(kFloat32);
  table.features["sum"] = (table.labels * 1000 + rows).to(kFloat32);
  table.features["town"] = rows.floor_divide(3).remainder(4);
  TablePlan plan{.label = "y", .classes = {"no", "yes"}};
  plan.columns = {{.name = "paid", .kind = ColumnKind::kCategory, .words = {"no", "yes"}},
                  {.name = "threshold"},
                  {.name = "sum"},
                  {.name = "town", .kind = ColumnKind::kCategory, .words = {"a", "b", "c", "d"}}};
  EXPECT_THAT(leaks_of(table, plan),
              ElementsAre("'paid' alone predicts the label in 100 % of the rows",
                          "'sum' alone predicts the label in 100 % of the rows"));
  plan.classes.clear();
  plan.columns = {{.name = "sum"}, {.name = "threshold"}};
  table.labels = table.features["sum"] * 3 + 1;
  EXPECT_THAT(leaks_of(table, plan), ElementsAre("'sum' is the label times a number"));
  table.labels = rows.square().remainder(37).to(kFloat32);
  EXPECT_THAT(leaks_of(table, plan), IsEmpty());
}

}  // namespace
}  // namespace muster::app
