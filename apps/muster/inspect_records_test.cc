#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "apps/muster/inspect.h"
#include "muster/base/bytes.h"
#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/formats/example.h"
#include "muster/formats/tfrecord.h"

namespace muster::app {
namespace {

using formats::Compression;
using formats::Feature;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Floats = std::vector<float>;
using Integers = std::vector<int64_t>;
using Texts = std::vector<std::string>;

class InspectRecords : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::vector<std::string>& records,
                    Compression compression = Compression::kNone) {
    auto writer =
        formats::TfrecordWriter::open(files_, folder_ / name, {.compression = compression}).value();
    for (const std::string& record : records) writer.write(bytes_of(record)).value();
    writer.close().value();
    return folder_ / name;
  }
  Inspection inspect(const std::string& path, const RecordsOptions& options = {}) {
    return inspect_records(files_, {path}, options, false);
  }
  json inspect_json(const std::string& path, const RecordsOptions& options = {}) {
    const json document = json::parse(inspect_records(files_, {path}, options, true).text);
    return document.at("files").at(0);
  }

  const std::vector<std::string> examples_ = {
      formats::encode_example({{{"x", Floats{0.5f, 2}}, {"name", Texts{"ann"}}}}),
      formats::encode_example(
          {{{"x", Floats{-1}}, {"name", Texts{"bob", "carl"}}, {"id", Integers{7}}}}),
      formats::encode_example({{{"x", std::monostate()}}})};

  TempDirectory folder_;
  FileSystem& files_ = local_file_system();
};

TEST_F(InspectRecords, FeaturesOfExamplesAndSomeOfThem) {
  const std::string path = write("a", examples_);
  const Inspection inspection = inspect(path, {.skip = 1, .limit = 1});
  EXPECT_FALSE(inspection.damage.has_value());
  const std::string bytes = std::to_string(files_.file_size(path).value());
  EXPECT_EQ(inspection.text, path + "\n  " + bytes + R"( bytes, not compressed
  3 records of tf.Example, 9 to 53 bytes each

  feature  kind   records  values  range
  x        float        3  0 to 2  -1 to 2
  name     bytes        2  1 to 2  3 to 4 bytes
  id       int64        1       1  7

  record 1, 53 bytes
    x     float[1]: -1
    name  bytes[2]: "bob", "carl"
    id    int64[1]: 7
)");
  EXPECT_THAT(inspect(path, {.limit = 0}).text, Not(HasSubstr("record 0")));
  EXPECT_THAT(inspect(path).text, HasSubstr("    x  no values\n"));
}

TEST_F(InspectRecords, EveryCompressionIsFoundOut) {
  for (const Compression compression : {Compression::kGzip, Compression::kZlib}) {
    const std::string path = write("a", examples_, compression);
    EXPECT_THAT(inspect(path).text,
                AllOf(HasSubstr(" bytes, compressed as " + std::string(to_string(compression))),
                      HasSubstr("3 records of tf.Example")));
  }
}

TEST_F(InspectRecords, SequenceExamplesHaveContextAndSteps) {
  const std::string path = write(
      "a", {formats::encode_sequence_example(
               {{{"id", Integers{1}}}, {{"words", {Texts{"a", "b"}, Texts{"c"}, Texts{}}}}})});
  const std::string text = inspect(path).text;
  EXPECT_THAT(text, HasSubstr("1 record of tf.SequenceExample"));
  EXPECT_THAT(text, HasSubstr("  id       int64        1       1  1\n"));
  EXPECT_THAT(text, HasSubstr("  words         bytes        1      3         0 to 2  1 bytes\n"));
  EXPECT_THAT(text, HasSubstr("    words  3 steps: [\"a\", \"b\"] [\"c\"] []\n"));
  const json shown = inspect_json(path).at("shown").at(0);
  EXPECT_EQ(shown.at("features").at("id"), json::parse(R"({"kind":"int64","values":[1]})"));
  EXPECT_EQ(shown.at("feature_lists").at("words").at(1),
            json::parse(R"({"kind":"bytes","values":["c"]})"));
}

TEST_F(InspectRecords, OtherRecordsAreShownAsBytes) {
  const std::string path = write("a", {"<html>\n", std::string(100, 'x')});
  const std::string text = inspect(path).text;
  EXPECT_THAT(text, HasSubstr("2 records of bytes, 7 to 100 bytes each"));
  EXPECT_THAT(text, HasSubstr("    3c 68 74 6d 6c 3e 0a                             <html>.\n"));
  EXPECT_EQ(inspect_json(path).at("shown").at(0).at("head"), "3c 68 74 6d 6c 3e 0a");
}

TEST_F(InspectRecords, LongAndStrangeValuesDoNotSpoilTheTerminal) {
  const std::string path = write(
      "a", {formats::encode_example({{{"esc\x1b[2J", Texts{"\x1b[2J", "\xff\xd8", "\xc2\x9b"}},
                                      {"long", Texts{std::string(200, 'y')}},
                                      {"many", Floats(784, 0.25f)},
                                      {"nan", Floats{NAN, INFINITY, 1}}}})});
  const std::string text = inspect(path).text;
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text,
              AllOf(HasSubstr("<2 bytes: ff d8>"), HasSubstr("<2 bytes: c2 9b>"),
                    HasSubstr(std::string(48, 'y') + "…\" (200 bytes)"),
                    HasSubstr("float[784]: 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, …"),
                    HasSubstr("float[3]: nan, inf, 1")));
  const json features = inspect_json(path).at("shown").at(0).at("features");
  EXPECT_EQ(features.at("many").at("values").size(), 784u);
  EXPECT_EQ(features.at("nan").at("values"), json::parse(R"(["nan","inf",1.0])"));
  EXPECT_EQ(features.at("esc\x1b[2J").at("values").at(1), json::parse(R"({"hex":"ff d8"})"));
}

TEST_F(InspectRecords, DamagedFilesAreShownAsFarAsTheyGo) {
  const std::string path = write("a", examples_);
  std::string bytes = files_.read_file(path).value();
  bytes[20] ^= 1;  // the content of the first record
  files_.write_atomically(path, std::string_view(bytes).substr(0, bytes.size() - 1)).value();
  const Inspection inspection = inspect(path);
  ASSERT_TRUE(inspection.damage.has_value());
  EXPECT_EQ(inspection.damage->kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(inspection.damage->message(),
              AllOf(HasSubstr("the content of the record at byte 0"),
                    HasSubstr("the file ends inside the record at byte ")));
  EXPECT_THAT(inspection.text, AllOf(HasSubstr("1 record of tf.Example"), HasSubstr("record 1, "),
                                     HasSubstr("\"carl\"")));
  EXPECT_EQ(inspect_json(path).at("damage").size(), 2u);
  files_.write_atomically(path, std::string_view("no records at all")).value();
  EXPECT_THAT(inspect(path).text, HasSubstr("  0 records\n"));
  EXPECT_THAT(inspect(path).damage->hint(), HasSubstr("is it a TFRecord file?"));
}

TEST_F(InspectRecords, MissingFilesAreFoundBeforeAnythingIsRead) {
  const std::string path = write("a", examples_);
  const Error missing = error_of([&] {
    inspect_records(files_, {path, folder_ / "none"}, {}, false);
  });
  EXPECT_EQ(missing.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(missing.message(), HasSubstr("none"));
  EXPECT_THAT(inspect_records(files_, {path, path}, {.limit = 0}, false).text,
              HasSubstr("  7\n\n" + path + "\n"));
}

TEST_F(InspectRecords, FilesOfOthers) {
  const char* folder = std::getenv("MUSTER_TEST_DATA");
  // Files written by others do not come with the project: ./dev test names their folder.
  if (folder == nullptr) GTEST_SKIP() << "MUSTER_TEST_DATA is not set";
  const std::string records = join_path(folder, "tensorflow/records");
  EXPECT_THAT(inspect(join_path(records, "taxi_examples.tfrecord")).text,
              AllOf(HasSubstr("10 records of tf.Example"),
                    HasSubstr("  image    float       10     784  0 to 1\n")));
  const json sequences = inspect_json(join_path(records, "sequence_examples.gz"));
  EXPECT_EQ(sequences.at("records"), 15'000);
  EXPECT_EQ(sequences.at("compression"), "gzip");
  EXPECT_EQ(sequences.at("feature_lists").at(0).at("name"), "s");
}

}  // namespace
}  // namespace muster::app
