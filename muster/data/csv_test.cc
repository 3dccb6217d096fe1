#include "muster/data/csv.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "muster/base/error_of.h"
#include "muster/data/internal/csv_testing.h"
#include "muster/data/internal/test_numbers.h"
#include "muster/formats/gzip.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

using CsvTest = CsvFiles;

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
  const Element rows = read_all(path, {.columns = {{"a", CsvKind::kFloat32, kNoNumber},
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

TEST_F(CsvTest, BadRowsAreNamedInTheirTurnAndReadingContinues) {
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
  EXPECT_THAT(said, ElementsAre(AllOf(HasSubstr("a.csv:3: column 'b': 'x4' is not float32")),
                                AllOf(HasSubstr("a.csv:5: the row has 1 fields"),
                                      HasSubstr("has 2 columns: '7'")),
                                AllOf(HasSubstr("a.csv:7: column 'a': '8\\x0a' is not int64")),
                                AllOf(HasSubstr("a.csv:9: column 'a': the value is missing ('')")),
                                AllOf(HasSubstr("a.csv:11: column 'a': '1.5' is not int64"))));
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

// The options that take the value, as a program writes them.
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
  EXPECT_THAT(message({.columns = {{"b"}}}), HasSubstr("column 'b': '\\xff' is not float32"));
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
  EXPECT_THAT(message({.columns = {{"a", CsvKind::kInt64, kNoNumber}}}), HasSubstr("a fraction"));
  EXPECT_THAT(message({.columns = {{"a", CsvKind::kFloat32, "x"}}}), HasSubstr("a text"));
  EXPECT_THAT(message({.columns = {{"a", CsvKind::kString, 1.0}}}), HasSubstr("of kind string"));
  EXPECT_THAT(message({.delimiter = '"', .columns = {{"a"}}}), HasSubstr("delimiter"));
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
  std::optional<Element> batch;
  std::vector<int64_t> seen;
  const auto read = [&] {
    const bool more = (batch = iterator->next()).has_value();
    for (int64_t i = 0; more && i < batch->rows(); ++i) {
      seen.push_back(batch->values()[0].tensor()[i].item<int64_t>());
    }
    return more;
  };
  ASSERT_TRUE(read());
  EXPECT_EQ(batch->describe(), "({x: int64[2]}, int64[2])");
  const auto position = iterator->save();
  ASSERT_TRUE(read());
  EXPECT_THAT(error_of(read).message(), HasSubstr("b.csv:3: column 'y': 'bad' is not int64"));
  while (read()) {
  }
  EXPECT_THAT(seen, ElementsAre(1, 3, 5, 7));
  iterator->restore(position);
  seen.clear();
  ASSERT_TRUE(read());
  EXPECT_THAT(seen, ElementsAre(5, 7));
  EXPECT_EQ(error_of([] { csv({}); }).kind(), ErrorKind::kInvalidArgument);
}

// Spark and others leave such a file for a partition without rows.
TEST_F(CsvTest, AFileWithoutAByteHasNoRows) {
  const std::vector<std::string> files{
      write("", "0.csv"),      write("x,y\n1,2\n", "1.csv"),     write("", "2.csv"),
      write("y,x\n", "3.csv"), write("\xef\xbb\xbf\n", "4.csv"), write("y,x\n4,3\n", "5.csv")};
  ::testing::internal::CaptureStderr();
  const auto iterator = csv(files, {.label = "y"}).batch(1).iterator();
  std::vector<int64_t> seen;
  std::optional<Element> batch;
  const auto read = [&] {
    if (!(batch = iterator->next())) return false;
    seen.push_back(batch->values()[0].tensor().item<int64_t>());
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
              AllOf(HasSubstr("0.csv is empty and has no rows"), Not(HasSubstr("2.csv"))));
  EXPECT_THAT(error_of([&] { csv({files[0]}); }).message(), HasSubstr("is empty"));
  EXPECT_THAT(error_of([&] { csv({files[0], files[2]}); }).message(), HasSubstr("all are empty"));
  EXPECT_TRUE(csv({files[0], files[1]}, {.header = false}).iterator()->next());
}

TEST_F(CsvTest, LinesMayEndWithAReturnAlone) {
  const std::string path = write("x,y\r1,2\r3,4\r");
  const Element rows = read_all(path, infer_csv(path));
  EXPECT_TRUE(torch::equal(rows.at("x").value().tensor(), torch::tensor({1, 3}, at::kLong)));
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
  const Element filled = read("tabular/auto-mpg/mpg.csv", {.missing_number = kNoNumber});
  EXPECT_EQ(filled.rows(), 398);
  EXPECT_EQ(filled.at("horsepower").value().tensor().isnan().sum().item<int64_t>(), 6);

  EXPECT_EQ(read("tabular/iris/iris.csv").rows(), 150);
  const Element housing = read("tabular/california/housing.csv", {.missing_number = kNoNumber});
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
