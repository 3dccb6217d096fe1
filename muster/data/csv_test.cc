#include "muster/data/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "muster/base/error_of.h"
#include "muster/base/file_system.h"
#include "muster/base/random.h"
#include "muster/base/temp_directory.h"
#include "muster/data/internal/test_numbers.h"
#include "muster/formats/gzip.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

class CsvTest : public ::testing::Test {
 protected:
  std::string write(const std::string& text, const std::string& name = "a.csv") {
    local_file_system().write_atomically(dir_ / name, text).value();
    return dir_ / name;
  }

  std::unique_ptr<ElementReader> open(const std::string& path, const CsvOptions& options) {
    return csv_format(options)->open(local_file_system(), path);
  }

  // All rows, or those to the first error.
  Element read_all(ElementReader& reader) {
    std::vector<std::vector<Value>> blocks;
    Element block;
    std::shared_ptr<const Structure> structure;
    while (reader.read(7, &block) > 0) {
      blocks.resize(block.values().size());
      for (size_t i = 0; i < blocks.size(); ++i) blocks[i].push_back(block.values()[i]);
      structure = block.shared_structure();
    }
    std::vector<Value> values;
    for (const auto& column : blocks) values.push_back(Value::concatenate(column));
    return Element::make(structure, std::move(values));
  }

  Element read_all(const std::string& path, const CsvOptions& options) {
    return read_all(*open(path, options));
  }

  const TempDirectory dir_;
};

std::vector<std::string> texts(const Value& value) {
  std::vector<std::string> result;
  for (int64_t i = 0; i < value.strings().size(); ++i) result.emplace_back(value.strings()[i]);
  return result;
}

std::string kinds_of(const CsvOptions& options) {
  std::string text;
  for (const CsvColumn& column : options.columns) {
    text += column.name + ":" + to_string(column.kind) + (column.missing ? "? " : " ");
  }
  return text;
}

TEST_F(CsvTest, ColumnsBecomeTensorsAndStrings) {
  const std::string path = write("b,skipped,a,name,c\n1,x,0.5,Ann,2.5\n-2,y,1e3,\"Bo, B\",3\n");
  const Element rows = read_all(
      path,
      {.columns = {
           {"a"}, {"b", CsvKind::kInt64}, {"c", CsvKind::kFloat64}, {"name", CsvKind::kString}}});
  EXPECT_EQ(rows.describe(), "{a: float32[2], b: int64[2], c: float64[2], name: string[2]}");
  EXPECT_TRUE(torch::equal(rows.at("a").value().tensor(), torch::tensor({0.5f, 1000.f})));
  EXPECT_TRUE(torch::equal(rows.at("b").value().tensor(), torch::tensor({1, -2}, at::kLong)));
  EXPECT_TRUE(torch::equal(rows.at("c").value().tensor(), torch::tensor({2.5, 3.0}, at::kDouble)));
  EXPECT_THAT(texts(rows.at("name").value()), ElementsAre("Ann", "Bo, B"));
}

TEST_F(CsvTest, ALabelStandsBesideTheFeatures) {
  const std::string path = write("x,y,z\n1,2,3\n4,5,6\n");
  const Element rows = read_all(path, infer_csv(path, {.label = "y"}));
  EXPECT_EQ(rows.describe(), "({x: int64[2], z: int64[2]}, int64[2])");
  EXPECT_TRUE(torch::equal(rows.values()[2].tensor(), torch::tensor({2, 5}, at::kLong)));
}

TEST_F(CsvTest, MissingValuesTakeTheDefaultOfTheirColumn) {
  const std::string path = write("a,b,c,d\n,?,NA,\n 1 , ? , 2,x\n");
  const Element rows = read_all(path, {.columns = {{"a", CsvKind::kFloat32, kNaN},
                                                   {"b", CsvKind::kInt64, int64_t{-1}},
                                                   {"c", CsvKind::kFloat64, 0.5},
                                                   {"d", CsvKind::kString, "none"}},
                                       .na_values = {"", "?", "NA"}});
  EXPECT_TRUE(std::isnan(rows.at("a").value().tensor()[0].item<float>()));
  EXPECT_EQ(rows.at("a").value().tensor()[1].item<float>(), 1);
  EXPECT_TRUE(torch::equal(rows.at("b").value().tensor(), torch::tensor({-1, -1}, at::kLong)));
  EXPECT_TRUE(torch::equal(rows.at("c").value().tensor(), torch::tensor({0.5, 2.0}, at::kDouble)));
  EXPECT_THAT(texts(rows.at("d").value()), ElementsAre("none", "x"));
}

TEST_F(CsvTest, BadRowsAreNamedInTheirTurnAndReadingGoesOn) {
  const std::string path = write("a,b\n1,2\n3,x4\n5,6\n7\n\n\"8\n\",9\n,10\n11,12\n1.5,13\n14,15");
  const auto reader = open(path, {.columns = {{"a", CsvKind::kInt64}, {"b"}}});
  Element rows;
  std::vector<std::string> said;
  std::vector<int64_t> seen;
  std::vector<int64_t> places;
  for (bool more = true; more;) {
    try {
      places.push_back(*reader->tell());
      const int64_t got = reader->read(2, &rows);
      for (int64_t i = 0; i < got; ++i) {
        seen.push_back(rows.at("a").value().tensor()[i].item<int64_t>());
      }
      more = got > 0;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
      EXPECT_NE(error.hint(), "");
      said.push_back(error.message());
    }
  }
  EXPECT_THAT(seen, ElementsAre(1, 5, 11, 14));
  EXPECT_THAT(said, ElementsAre(AllOf(HasSubstr("a.csv:3: column 'b': 'x4' is no float32")),
                                AllOf(HasSubstr("a.csv:5: the row has 1 fields"),
                                      HasSubstr("has 2 columns: '7'")),
                                AllOf(HasSubstr("a.csv:7: column 'a': '8\\x0a' is no int64")),
                                AllOf(HasSubstr("a.csv:9: column 'a': the value is missing ('')")),
                                AllOf(HasSubstr("a.csv:11: column 'a': '1.5' is no int64"))));
  // From every place the same rest: rows and errors.
  for (size_t i = 0; i < places.size(); ++i) {
    reader->seek(places[i]);
    EXPECT_EQ(reader->tell(), places[i]);
    EXPECT_EQ(
        skip_over(*reader, 100) +
            [&] {
              reader->seek(4);
              int64_t before = 0;
              while (*reader->tell() < places[i]) before += skip_over(*reader, 1);
              return before;
            }(),
        9);
  }
  // Skipping counts the row whose error has not been thrown yet.
  reader->seek(4);
  EXPECT_EQ(reader->read(5, &rows), 1);
  EXPECT_EQ(skip_over(*reader, 2), 2);
  EXPECT_THAT(error_of([&] { reader->read(1, &rows); }).message(), HasSubstr("a.csv:5"));
  EXPECT_EQ(reader->skip(0), 0);
}

TEST_F(CsvTest, FilesThatDoNotFitAreRefusedAtOnce) {
  const auto message = [&](const std::string& text, const CsvOptions& options) {
    const std::string path = write(text);
    const Error error = error_of([&] { open(path, options); });
    EXPECT_NE(error.hint(), "");
    return error.message();
  };
  const CsvOptions options{.columns = {{"age"}, {"name", CsvKind::kString}}};
  EXPECT_THAT(message("Age,name\n", options),
              AllOf(HasSubstr("has no column 'age'"), HasSubstr("'Age', 'name'")));
  EXPECT_THAT(message("age,name,age\n", options),
              HasSubstr("columns 0 and 2 are both called 'age'"));
  EXPECT_THAT(message(std::string("\xff\xfe"
                                  "a\0g\0",
                                  6),
                      options),
              HasSubstr("UTF-16"));
  CsvOptions named = options;
  named.column_names = {"age"};
  EXPECT_THAT(message("age,name\n", named), HasSubstr("has 2 columns, column_names has 1"));
  EXPECT_EQ(error_of([&] { open(dir_ / "none.csv", options); }).kind(), ErrorKind::kNotFound);
}

// What a program writes to take the value, in its own words.
TEST_F(CsvTest, AValueThatDoesNotFitNamesTheOptionsThatTakeIt) {
  const auto error_in = [&](const std::string& last, const CsvOptions& given) {
    const std::string path = write("age,name\n1,x\n" + last + ",y\n");
    const auto reader = open(path, infer_csv(path, given));
    Element rows;
    return error_of([&] {
      while (reader->read(1, &rows) > 0) continue;
    });
  };
  const Error missing = error_in("", {.infer_rows = 1});
  EXPECT_THAT(missing.hint(), AllOf(HasSubstr("CsvOptions::columns: {.name = \"age\", .kind = "
                                              "CsvKind::kInt64, .missing = int64_t{0}}"),
                                    HasSubstr("CsvOptions::missing_number")));
  const Error text = error_in("old", {.infer_rows = 1});
  EXPECT_THAT(text.hint(), AllOf(HasSubstr("{.name = \"age\", .kind = CsvKind::kString}"),
                                 HasSubstr("infer_rows"), HasSubstr("CsvOptions::na_values")));
  const CsvOptions as_written{.columns = {{.name = "age", .missing = 0.0}}};
  EXPECT_EQ(read_all(write("age\n1\n?\n"), as_written).describe(), "{age: float32[2]}");
}

TEST_F(CsvTest, AFileThatIsNoTextDoesNotReachTheTerminal) {
  const std::string bytes("\x1b[2J\x00,b\n1,\xff\n", 12);
  const auto message = [&](const CsvOptions& options) {
    const std::string path = write(bytes);
    return error_of([&] {
             Element rows;
             open(path, options)->read(1, &rows);
           })
        .message();
  };
  EXPECT_THAT(message({.columns = {{"c"}}}), HasSubstr("it has '\\x1b[2J\\x00', 'b'"));
  EXPECT_THAT(message({.columns = {{"b"}}}), HasSubstr("column 'b': '\\xff' is no float32"));
  const std::string path = write("\x1b,\x1b\n" + std::string(5000, '\x01') + "\n");
  EXPECT_THAT(error_of([&] { open(path, {.columns = {{"c"}}}); }).message(),
              HasSubstr("columns 0 and 1 are both called '\\x1b'"));
  const std::string longest = write(std::string(5000, '\x01') + "\n");
  EXPECT_LT(error_of([&] { open(longest, {.columns = {{"c"}}}); }).message().size(), 500U);
}

TEST_F(CsvTest, OptionsThatContradictAreRefused) {
  const auto message = [](const CsvOptions& options) {
    const Error error = error_of([&] { csv_format(options); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return error.message();
  };
  EXPECT_THAT(message({}), HasSubstr("no columns"));
  EXPECT_THAT(message({.columns = {{"a"}, {"a"}}}), HasSubstr("'a' twice"));
  EXPECT_THAT(message({.columns = {{"a"}}, .label = "b"}), HasSubstr("label 'b' is not among"));
  EXPECT_THAT(message({.columns = {{"a"}}, .label = "a"}), HasSubstr("no features"));
  EXPECT_THAT(message({.columns = {{"a", CsvKind::kInt64, kNaN}}}), HasSubstr("a fraction"));
  EXPECT_THAT(message({.columns = {{"a", CsvKind::kFloat32, "x"}}}), HasSubstr("a text"));
  EXPECT_THAT(message({.columns = {{"a", CsvKind::kString, 1.0}}}), HasSubstr("of kind string"));
  EXPECT_THAT(message({.delimiter = '"', .columns = {{"a"}}}), HasSubstr("delimiter"));
}

TEST_F(CsvTest, KindsAreInferredFromTheFirstRows) {
  const std::string path = write(
      "i,f,s,m,none,id,late\n1,1.5,x,,,99999999999999999999,1\n-2,3,4,7,?,5,2\n3,1e9,,8,,6,3.5\n");
  EXPECT_EQ(kinds_of(infer_csv(path)),
            "i:int64 f:float32 s:string? m:int64 none:string? id:string? late:float32 ");
  EXPECT_THAT(kinds_of(infer_csv(path, {.infer_rows = 2})), HasSubstr("late:int64 "));
  EXPECT_EQ(kinds_of(infer_csv(path, {.missing_number = kNaN})),
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

TEST_F(CsvTest, AColumnThatIsNearlyNumbersIsNamed) {
  const auto warning = [&](const std::string& odd, int64_t rows, const CsvOptions& options = {}) {
    std::string text = "a,b\n" + odd + ",1\n";
    for (int64_t i = 1; i < rows; ++i) text += fmt::format("{},1\n", i);
    const std::string path = write(text);
    ::testing::internal::CaptureStderr();
    EXPECT_THAT(kinds_of(infer_csv(path, options)), HasSubstr("b:int64"));
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(warning("4O", 20),
              HasSubstr("column 'a' is read as texts, since 1 of its first 20 values is no number: "
                        "'4O'"));
  EXPECT_EQ(warning("4O", 19), "");
  EXPECT_EQ(warning("40", 20), "");
  EXPECT_EQ(warning("", 20), "");
  EXPECT_EQ(warning("99999999999999999999", 20), "");
  EXPECT_EQ(warning("4O", 20, {.columns = {{"a", CsvKind::kString}}}), "");
}

// However frequent: NA, or what else stands for a missing value.
TEST_F(CsvTest, AWordThatComesAgainAmongNumbersIsNamed) {
  const auto warning = [&](const std::string& text, const CsvOptions& options = {}) {
    const std::string path = write(text);
    ::testing::internal::CaptureStderr();
    infer_csv(path, options);
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(warning("a,b\n1,1\nNA,2\nNA,3\n2.5,4\n"),
              AllOf(HasSubstr("column 'a' is read as texts, since 2 of its first 4 values are no "
                              "number: 'NA'"),
                    HasSubstr("add it to na_values")));
  EXPECT_EQ(warning("a,b\n1,1\nNA,2\nNA,3\n", {.na_values = {"NA"}}), "");
  EXPECT_EQ(warning("a,b\nNA,1\nNA,2\n"), "");
  EXPECT_EQ(warning("a,b\n1,1\nNA,2\nx,3\n"), "");
}

TEST_F(CsvTest, FilesWithoutHeaderAreNumberedOrNamed) {
  const std::string path = write("1;x\n2;y\n");
  CsvOptions options{.header = false, .delimiter = ';'};
  EXPECT_EQ(read_all(path, infer_csv(path, options)).describe(), "{0: int64[2], 1: string[2]}");
  options.column_names = {"n", "s"};
  EXPECT_EQ(read_all(path, infer_csv(path, options)).describe(), "{n: int64[2], s: string[2]}");
  local_file_system()
      .write_atomically(dir_ / "a.gz", formats::gzip(bytes_of("n,s\n1,x\n")))
      .value();
  EXPECT_EQ(read_all(dir_ / "a.gz", infer_csv(dir_ / "a.gz")).describe(),
            "{n: int64[1], s: string[1]}");
}

TEST_F(CsvTest, FilesAreADataSet) {
  const std::string a = write("x,y\n1,2\n3,4\n5,6\n");
  // Alone it would be whole numbers and texts the other way round.
  const std::string b = write("y,x\n8,7\nbad,9\n10,11\n", "b.csv");
  const Dataset dataset = csv({a, b}, {.label = "y", .infer_rows = 3}).batch(2);
  const auto iterator = dataset.iterator();
  Element batch;
  std::vector<int64_t> seen;
  const auto read = [&] {
    const bool more = iterator->next(&batch);
    for (int64_t i = 0; more && i < batch.rows(); ++i) {
      seen.push_back(batch.values()[0].tensor()[i].item<int64_t>());
    }
    return more;
  };
  ASSERT_TRUE(read());
  EXPECT_EQ(batch.describe(), "({x: int64[2]}, int64[2])");
  const auto position = iterator->save();
  ASSERT_TRUE(read());
  EXPECT_THAT(error_of(read).message(), HasSubstr("b.csv:3: column 'y': 'bad' is no int64"));
  while (read()) {
  }
  EXPECT_THAT(seen, ElementsAre(1, 3, 5, 7));
  iterator->restore(position);
  seen.clear();
  ASSERT_TRUE(read());
  EXPECT_THAT(seen, ElementsAre(5, 7));
  EXPECT_EQ(error_of([] { csv({}); }).kind(), ErrorKind::kInvalidArgument);
}

TEST_F(CsvTest, KindsAreThoseOfAllFilesThatAreLookedAt) {
  const std::string a = write("x,y\n1,2\n"), b = write("y,x\n2.5,3\nlate,4\n", "b.csv");
  EXPECT_EQ(kinds_of(infer_csv(std::vector{a, b}, {.infer_rows = 2})), "x:int64 y:float32 ");
  EXPECT_EQ(kinds_of(infer_csv(std::vector{a, b})), "x:int64 y:string? ");
  // Far behind the first thousand rows.
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

// What Spark and others leave for a partition without rows.
TEST_F(CsvTest, AFileWithoutAByteHasNoRows) {
  const std::vector<std::string> files{
      write("", "0.csv"),      write("x,y\n1,2\n", "1.csv"),     write("", "2.csv"),
      write("y,x\n", "3.csv"), write("\xef\xbb\xbf\n", "4.csv"), write("y,x\n4,3\n", "5.csv")};
  ::testing::internal::CaptureStderr();
  const auto iterator = csv(files, {.label = "y"}).batch(1).iterator();
  std::vector<int64_t> seen;
  Element batch;
  const auto read = [&] {
    if (!iterator->next(&batch)) return false;
    seen.push_back(batch.values()[0].tensor().item<int64_t>());
    return true;
  };
  ASSERT_TRUE(read());
  const auto position = iterator->save();
  while (read()) continue;
  EXPECT_THAT(seen, ElementsAre(1, 3));
  iterator->restore(position);
  EXPECT_TRUE(read());
  EXPECT_THAT(seen, ElementsAre(1, 3, 3));
  // One line for all of them.
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("0.csv is empty, and gives no rows"), Not(HasSubstr("2.csv"))));
  EXPECT_THAT(error_of([&] { csv({files[0]}); }).message(), HasSubstr("is empty"));
  EXPECT_THAT(error_of([&] { csv({files[0], files[2]}); }).message(), HasSubstr("all are empty"));
  EXPECT_EQ(csv({files[0], files[1]}, {.header = false}).iterator()->next(&batch), true);
}

TEST_F(CsvTest, LinesMayEndWithAReturnAlone) {
  const std::string path = write("x,y\r1,2\r3,4\r");
  const Element rows = read_all(path, infer_csv(path));
  EXPECT_TRUE(torch::equal(rows.at("x").value().tensor(), torch::tensor({1, 3}, at::kLong)));
}

TEST_F(CsvTest, NumbersHaveTheMarksTheyAreSaidToHave) {
  const std::string path = write(
      "a;b;c\n1,5;1.234;-1.234.567,25\n\xe2\x88\x92"
      "2;5;1,5E+05\n;2.000;0,5\n");
  const CsvOptions german{
      .delimiter = ';', .decimal = ',', .thousands = '.', .missing_number = kNaN};
  const CsvOptions inferred = infer_csv(path, german);
  EXPECT_EQ(kinds_of(inferred), "a:float32? b:int64 c:float32? ");
  const Element rows = read_all(path, inferred);
  EXPECT_EQ(rows.at("a").value().tensor()[1].item<float>(), -2);
  EXPECT_TRUE(
      torch::equal(rows.at("b").value().tensor(), torch::tensor({1234, 5, 2000}, at::kLong)));
  EXPECT_TRUE(
      torch::equal(rows.at("c").value().tensor(), torch::tensor({-1234567.25F, 150000.F, 0.5F})));
  // A mark that is not said is no number, and what is there is told.
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(kinds_of(infer_csv(path, {.delimiter = ';'})), "a:string? b:float32 c:string? ");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("column 'c' is read as texts, though they look like numbers"),
                    HasSubstr("CsvOptions::decimal = ','")));
  EXPECT_THAT(error_of([&] { csv({path}, {.decimal = ';'}); }).message(),
              HasSubstr("decimal is ';'"));
  EXPECT_THAT(error_of([&] { csv({path}, {.thousands = '.'}); }).message(),
              HasSubstr("thousands is '.'"));
}

// 2^24 and more: float32 has no place for every day and every identifier.
TEST_F(CsvTest, NumbersThatFloat32RoundsAreToldApart) {
  const std::string path = write("day,time,x\n20180131,1517443201.5,0.1\n,1517443202.5,0.7\n");
  EXPECT_EQ(kinds_of(infer_csv(path, {.missing_number = kNaN})),
            "day:float64? time:float64? x:float32? ");
  const std::string ids = write("id,x\n9007199254740993,1\n,2\n", "ids.csv");
  // Not in a double either: the missing value is an error then.
  EXPECT_EQ(kinds_of(infer_csv(ids, {.missing_number = kNaN})), "id:int64 x:int64 ");
  ::testing::internal::CaptureStderr();
  read_all(path, {.columns = {{.name = "day", .missing = 0.0}, {.name = "x"}}});
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("column 'day' is read as float32, which rounds"),
                    Not(HasSubstr("column 'x'"))));
}

// Rows of every kind of value, as bits.
Element random_rows(Random& random, int64_t count) {
  Tensor single = torch::empty({count}), wide = torch::empty({count}, at::kDouble);
  Tensor whole = torch::empty({count}, at::kLong);
  std::vector<std::string> names;
  constexpr std::string_view kLetters = "ab,\"\n\r ;\xc3\xa9";
  for (int64_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<float>(random.next_u32());
    single.data_ptr<float>()[i] = std::isnan(bits) ? 0.25f : bits;
    const auto wide_bits = std::bit_cast<double>(random.next_u64());
    wide.data_ptr<double>()[i] = std::isnan(wide_bits) ? 0.1 : wide_bits;
    whole.data_ptr<int64_t>()[i] = static_cast<int64_t>(random.next_u64());
    names.emplace_back();
    for (uint64_t k = random.uniform_below(9); k > 0; --k) {
      names.back() += kLetters[random.uniform_below(kLetters.size())];
    }
  }
  return Element::dict({{"single", single},
                        {"wide", wide},
                        {"whole", whole},
                        {"the, \"name\"", Value(Strings(names))}});
}

TEST_F(CsvTest, WhatIsWrittenIsReadBackToTheLastBit) {
  Random random(derive_key(11, {}));
  const CsvOptions options{.columns = {{"single"},
                                       {"wide", CsvKind::kFloat64},
                                       {"whole", CsvKind::kInt64},
                                       {"the, \"name\"", CsvKind::kString}},
                           .na_values = {}};
  for (int round = 0; round < 5; ++round) {
    const Element rows = random_rows(random, 500);
    CsvWriter writer(dir_ / "w.csv", {.delimiter = round % 2 == 0 ? ',' : ';'});
    writer.write(rows.slice(0, 200));
    writer.write(rows.slice(200, 500));
    writer.commit();
    CsvOptions read = options;
    read.delimiter = round % 2 == 0 ? ',' : ';';
    const Element back = read_all(dir_ / "w.csv", read);
    EXPECT_EQ(back.describe(), rows.describe());
    for (const char* key : {"single", "wide", "whole"}) {
      EXPECT_TRUE(torch::equal(back.at(key).value().tensor(), rows.at(key).value().tensor()))
          << key;
    }
    EXPECT_EQ(texts(back.at("the, \"name\"").value()), texts(rows.at("the, \"name\"").value()));
  }
}

TEST_F(CsvTest, WritesFeaturesAndLabelsAndSingleRows) {
  CsvWriter writer(dir_ / "w.csv");
  EXPECT_EQ(error_of([&] { writer.commit(); }).kind(), ErrorKind::kInvalidArgument);
  const Element features =
      Element::dict({{"b", torch::tensor({1.5f, 0.1f})}, {"a", torch::tensor({true, false})}});
  writer.write(Element::tuple({features, torch::tensor({3, 4}, at::kInt)}));
  writer.write(Element::tuple({Element::dict({{"a", torch::scalar_tensor(true, at::kBool)},
                                              {"b", torch::scalar_tensor(kNaN)}}),
                               torch::scalar_tensor(5, at::kLong)}));
  EXPECT_THAT(error_of([&] { writer.write(features); }).message(),
              AllOf(HasSubstr("'a', 'b'"), HasSubstr("'a', 'b', 'label'")));
  EXPECT_THAT(error_of([&] {
                writer.write(Element::tuple(
                    {Element::dict({{"a", torch::zeros({2, 3})}, {"b", torch::zeros({2})}}),
                     torch::zeros({2})}));
              }).message(),
              HasSubstr("'a' is float32[2, 3]"));
  writer.commit();
  EXPECT_EQ(local_file_system().read_file(dir_ / "w.csv").value(),
            "a,b,label\n1,1.5,3\n0,0.1,4\n1,nan,5\n");
  { CsvWriter unfinished(dir_ / "u.csv"); }
  EXPECT_FALSE(local_file_system().exists(dir_ / "u.csv").value());
}

class RealCsv : public CsvTest {
 protected:
  void SetUp() override {
    const char* data = std::getenv("MUSTER_TEST_DATA");
    // Files written by others do not come with the project: ./dev test names their folder.
    if (data == nullptr) GTEST_SKIP() << "MUSTER_TEST_DATA is not set";
    folder_ = data;
  }
  Element read(const std::string& name, CsvOptions options = {}) {
    const std::string path = join_path(folder_, name);
    return read_all(path, infer_csv(path, std::move(options)));
  }

  std::string folder_;
};

// Numbers as Python's csv module reads them.
TEST_F(RealCsv, Tables) {
  const Element titanic = read("tabular/titanic/train.csv", {.label = "survived"});
  EXPECT_EQ(titanic.rows(), 627);
  EXPECT_EQ(titanic.structure().children[0].keys.size(), 9u);
  EXPECT_EQ(titanic.values().back().tensor().sum().item<int64_t>(), 243);
  EXPECT_EQ(read("tabular/titanic/eval.csv").rows(), 264);

  const Element census = read("tabular/census/adult_train.csv", {.label = "income"});
  EXPECT_EQ(census.rows(), 22792);
  const Element features = census.part(0);
  EXPECT_EQ(features.at("age").value().tensor().sum().item<int64_t>(), 880119);

  const std::string mpg = join_path(folder_, "tabular/auto-mpg/mpg.csv");
  const auto reader = open(mpg, infer_csv(mpg));
  Element rows;
  EXPECT_EQ(reader->read(1000, &rows), 32);
  EXPECT_THAT(error_of([&] { reader->read(1000, &rows); }).message(),
              HasSubstr("mpg.csv:34: column 'horsepower': the value is missing"));
  const Element filled = read("tabular/auto-mpg/mpg.csv", {.missing_number = kNaN});
  EXPECT_EQ(filled.rows(), 398);
  EXPECT_EQ(filled.at("horsepower").value().tensor().isnan().sum().item<int64_t>(), 6);

  EXPECT_EQ(read("tabular/iris/iris.csv").rows(), 150);
  const Element housing = read("tabular/california/housing.csv", {.missing_number = kNaN});
  EXPECT_EQ(housing.rows(), 20640);
  EXPECT_EQ(housing.at("total_bedrooms").value().tensor().isnan().sum().item<int64_t>(), 207);
  EXPECT_EQ(texts(housing.at("ocean_proximity").value())[0], "NEAR BAY");
  const Element cover = read("tabular/covertype/covertype.csv", {.label = "Cover_Type"});
  EXPECT_EQ(cover.rows(), 38501);
  EXPECT_EQ(cover.part(0).at("Elevation").value().tensor().sum().item<int64_t>(), 91722468);
}

TEST_F(RealCsv, ClickLogs) {
  const Element criteo = read("sparse/criteo_sample.txt", {.label = "label", .missing_number = 0});
  EXPECT_EQ(criteo.rows(), 200);
  EXPECT_EQ(criteo.part(0).size(), 39);
  EXPECT_EQ(criteo.part(0).at("C26").value().strings().size(), 200);
  const Element avazu = read("sparse/avazu_sample.txt", {.label = "click"});
  EXPECT_EQ(avazu.rows(), 100);
  EXPECT_TRUE(avazu.part(0).at("id").value().is_strings()) << "too long for int64";
  EXPECT_EQ(avazu.part(0).at("id").value().strings()[1], "10000169349117863715");
  const Element digits = read("tabular/digits/digits.csv.gz", {.header = false});
  EXPECT_EQ(digits.rows(), 1797);
  EXPECT_EQ(digits.size(), 65);
}

}  // namespace
}  // namespace muster::inline v0_1::data
