// The kinds of columns that are found by looking at their values.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "muster/base/error_of.h"
#include "muster/data/internal/csv_testing.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using CsvInferenceTest = CsvFiles;

std::string kinds_of(const CsvOptions& options) {
  std::string text;
  for (const CsvColumn& column : options.columns) {
    text += column.name + ":" + to_string(column.kind) + (column.missing ? "? " : " ");
  }
  return text;
}

TEST_F(CsvInferenceTest, KindsAreInferredFromTheFirstRows) {
  const std::string path = write(
      "i,f,s,m,none,id,late\n1,1.5,x,,,99999999999999999999,1\n-2,3,4,7,?,5,2\n3,1e9,,8,,6,3.5\n");
  EXPECT_EQ(kinds_of(infer_csv(path)),
            "i:int64 f:float32 s:string? m:int64 none:string? id:string? late:float32 ");
  EXPECT_THAT(kinds_of(infer_csv(path, {.infer_rows = 2})), HasSubstr("late:int64 "));
  EXPECT_EQ(kinds_of(infer_csv(path, {.missing_number = kNoNumber})),
            "i:int64 f:float32? s:string? m:float32? none:string? id:string? late:float32? ");
  EXPECT_EQ(kinds_of(infer_csv(path, {.missing_number = 0})),
            "i:int64? f:float32? s:string? m:int64? none:string? id:string? late:float32? ");
  const CsvOptions some = infer_csv(
      path, {.columns = {{"i", CsvKind::kFloat64}}, .select_columns = {"m", 1}, .label = "late"});
  EXPECT_EQ(kinds_of(some), "i:float64 f:float32 m:int64 late:float32 ");
  EXPECT_THAT(error_of([&] { infer_csv(path, {.select_columns = {"fs"}}); }).message(),
              AllOf(HasSubstr("has no column 'fs'"), HasSubstr("'late'")));
  EXPECT_EQ(error_of([&] { infer_csv(path, {.select_columns = {7}}); }).kind(),
            ErrorKind::kNotFound);
  EXPECT_EQ(error_of([&] { infer_csv(path, {.label = "l"}); }).kind(), ErrorKind::kNotFound);
  const CsvOptions listed{.columns = {{.name = "a"}, {.name = "b"}}};
  EXPECT_EQ(infer_csv(write("a,b\n", "b.csv"), listed).columns.size(), 2U);
  EXPECT_THROW(infer_csv(write("", "none.csv"), {.header = false}), Error);
  EXPECT_THAT(error_of([&] { infer_csv(write("a,b\n", "b.csv")); }).message(),
              HasSubstr("no rows"));
}

TEST_F(CsvInferenceTest, AColumnThatIsNearlyNumbersIsNamed) {
  const auto warning = [&](const std::string& odd, int64_t rows, const CsvOptions& options = {}) {
    std::string text = "a,b\n" + odd + ",1\n";
    for (int64_t i = 1; i < rows; ++i) text += fmt::format("{},1\n", i);
    const std::string path = write(text);
    ::testing::internal::CaptureStderr();
    EXPECT_THAT(kinds_of(infer_csv(path, options)), HasSubstr("b:int64"));
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(
      warning("4O", 20),
      HasSubstr(
          "column 'a' is read as text, because 1 of its first 20 values is not a number: '4O'"));
  EXPECT_EQ(warning("4O", 19), "");
  EXPECT_EQ(warning("40", 20), "");
  EXPECT_EQ(warning("", 20), "");
  EXPECT_EQ(warning("99999999999999999999", 20), "");
  EXPECT_EQ(warning("4O", 20, {.columns = {{"a", CsvKind::kString}}}), "");
}

// However frequent: NA, or another word for a missing value.
TEST_F(CsvInferenceTest, AWordThatComesAgainAmongNumbersIsNamed) {
  const auto warning = [&](const std::string& text, const CsvOptions& options = {}) {
    const std::string path = write(text);
    ::testing::internal::CaptureStderr();
    infer_csv(path, options);
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(
      warning("a,b\n1,1\nNA,2\nNA,3\n2.5,4\n"),
      AllOf(
          HasSubstr(
              "column 'a' is read as text, because 2 of its first 4 values are not a number: 'NA'"),
          HasSubstr("add it to na_values")));
  EXPECT_EQ(warning("a,b\n1,1\nNA,2\nNA,3\n", {.na_values = {"NA"}}), "");
  EXPECT_EQ(warning("a,b\nNA,1\nNA,2\n"), "");
  EXPECT_EQ(warning("a,b\n1,1\nNA,2\nx,3\n"), "");
}

TEST_F(CsvInferenceTest, KindsAreThoseOfAllFilesThatAreLookedAt) {
  const std::string a = write("x,y\n1,2\n"), b = write("y,x\n2.5,3\nlate,4\n", "b.csv");
  EXPECT_EQ(kinds_of(infer_csv(std::vector{a, b}, {.infer_rows = 2})), "x:int64 y:float32 ");
  EXPECT_EQ(kinds_of(infer_csv(std::vector{a, b})), "x:int64 y:string? ");
  // Far after the first thousand rows.
  std::string text = "a,b\n";
  for (int i = 0; i < 5000; ++i) text += i == 4900 ? "2.5,x\n" : "3,4\n";
  const std::string late = write(text, "late.csv");
  EXPECT_EQ(kinds_of(infer_csv(late)), "a:float32 b:string? ");
  EXPECT_EQ(kinds_of(infer_csv(late, {.infer_rows = 1000})), "a:int64 b:int64 ");
  EXPECT_THAT(error_of([&] {
                infer_csv(std::vector{a, write("x,z\n1,2\n", "c.csv")});
              }).message(),
              AllOf(HasSubstr("c.csv has no column 'y'"), HasSubstr("'x', 'z'")));
}

TEST_F(CsvInferenceTest, NumbersHaveTheMarksTheyAreSaidToHave) {
  const std::string path = write(
      "a;b;c\n1,5;1.234;-1.234.567,25\n\xe2\x88\x92"
      "2;5;1,5E+05\n;2.000;0,5\n");
  const CsvOptions german{
      .delimiter = ';', .decimal = ',', .thousands = '.', .missing_number = kNoNumber};
  const CsvOptions inferred = infer_csv(path, german);
  EXPECT_EQ(kinds_of(inferred), "a:float32? b:int64 c:float32? ");
  const Element rows = read_all(path, inferred);
  EXPECT_EQ(rows.at("a").value().tensor()[1].item<float>(), -2);
  EXPECT_TRUE(
      torch::equal(rows.at("b").value().tensor(), torch::tensor({1234, 5, 2000}, at::kLong)));
  EXPECT_TRUE(
      torch::equal(rows.at("c").value().tensor(), torch::tensor({-1234567.25F, 150000.F, 0.5F})));
  // A text with an undeclared mark is not a number, and the warning names it.
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(kinds_of(infer_csv(path, {.delimiter = ';'})), "a:string? b:float32 c:string? ");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("column 'c' is read as text, although it looks like numbers"),
                    HasSubstr("CsvOptions::decimal = ','")));
  EXPECT_THAT(error_of([&] { csv({path}, {.decimal = ';'}); }).message(),
              HasSubstr("decimal is ';'"));
  EXPECT_THAT(error_of([&] { csv({path}, {.thousands = '.'}); }).message(),
              HasSubstr("thousands is '.'"));
}

// 2^24 and more: float32 has no place for every day and every identifier.
TEST_F(CsvInferenceTest, NumbersThatFloat32RoundsAreDistinguished) {
  const std::string path = write("day,time,x\n20180131,1517443201.5,0.1\n,1517443202.5,0.7\n");
  EXPECT_EQ(kinds_of(infer_csv(path, {.missing_number = kNoNumber})),
            "day:float64? time:float64? x:float32? ");
  const std::string ids = write("id,x\n9007199254740993,1\n,2\n", "ids.csv");
  // Not in a double either: the missing value is an error then.
  EXPECT_EQ(kinds_of(infer_csv(ids, {.missing_number = kNoNumber})), "id:int64 x:int64 ");
  ::testing::internal::CaptureStderr();
  read_all(path, {.columns = {{.name = "day", .missing = 0.0}, {.name = "x"}}});
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("column 'day' is read as float32, which rounds"),
                    Not(HasSubstr("column 'x'"))));
}

}  // namespace
}  // namespace muster::inline v0_1::data
