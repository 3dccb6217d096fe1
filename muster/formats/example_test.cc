#include "muster/formats/example.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/formats/internal/test_bytes.h"
#include "muster/formats/tfrecord.h"

namespace muster::inline v0_1::formats {
namespace {

using ::testing::HasSubstr;

using Strings = std::vector<std::string>;
using Floats = std::vector<float>;
using Integers = std::vector<int64_t>;

// Field `number` with `body` after its length.
std::string field(int number, const std::string& body) {
  std::string bytes{static_cast<char>(number * 8 + 2)};
  if (body.size() < 128) return bytes + static_cast<char>(body.size()) + body;
  return bytes + static_cast<char>(body.size() % 128 + 128) + static_cast<char>(body.size() / 128) +
         body;
}
MessageKind kind_of_message(Bytes bytes) {
  SequenceExample content;
  return decode_message(bytes, &content);
}

// An entry of a map.
std::string entry(const std::string& key, const std::string& value) {
  return field(1, field(1, key) + field(2, value));
}
const std::string kHalf("\x0d\0\0\0\x3f", 5);  // field 1: the float 0.5, not packed
const std::string kOne("\x08\x01", 2);         // field 1: the number 1, not packed

FeatureMap features_of(const std::string& entries) {
  return decode_example(bytes_of(field(1, entries))).value().features;
}

TEST(Example, ReadsBackWhatWasWritten) {
  const Example example{{{"z", Integers{1, -1, INT64_MAX, INT64_MIN}},
                         {"a", Floats{0.5f, -2}},
                         {"", Strings{"x", "", std::string(300, 'y')}},
                         {"none", std::monostate()},
                         {"empty", Floats{}}}};
  const std::string bytes = encode_example(example);
  EXPECT_EQ(decode_example(bytes_of(bytes)).value().features, example.features);
  EXPECT_EQ(kind_of_message(bytes_of(bytes)), MessageKind::kExample);
  const SequenceExample sequence{
      example.features,
      {{"words", {Strings{"a", "b"}, Strings{}, Strings{"c"}}}, {"none", {}}, {"x", {Floats{1}}}}};
  const std::string more = encode_sequence_example(sequence);
  const SequenceExample decoded = decode_sequence_example(bytes_of(more)).value();
  EXPECT_EQ(decoded.context, sequence.context);
  EXPECT_EQ(decoded.feature_lists, sequence.feature_lists);
  SequenceExample content;
  EXPECT_EQ(decode_message(bytes_of(bytes), &content), MessageKind::kExample);
  EXPECT_EQ(content.context, example.features);
  EXPECT_EQ(kind_of_message(bytes_of(more)), MessageKind::kSequenceExample);
}

TEST(Example, ListsNeedNotBePacked) {
  EXPECT_EQ(features_of(entry("a", field(3, kOne + "\x08\xac\x02" + field(1, "\x07\x08") + kOne)) +
                        entry("f", field(2, kHalf + field(1, kHalf.substr(1)) + kHalf))),
            (FeatureMap{{"a", Integers{1, 300, 7, 8, 1}}, {"f", Floats{0.5f, 0.5f, 0.5f}}}));
}

TEST(Example, LaterEntriesOfAKeyCount) {
  EXPECT_EQ(features_of(entry("a", field(3, kOne)) + entry("b", field(3, kOne)) +
                        entry("a", field(2, kHalf))),
            (FeatureMap{{"a", Floats{0.5f}}, {"b", Integers{1}}}));
  // If one feature has several kinds, the last one counts; features fields in two parts are one
  // map.
  const std::string part = field(1, entry("a", field(2, kHalf) + field(3, kOne) + field(3, kOne)));
  EXPECT_EQ(decode_example(bytes_of(part + field(1, entry("b", field(3, kOne))))).value().features,
            (FeatureMap{{"a", Integers{1, 1}}, {"b", Integers{1}}}));
  // The value may precede its key.
  EXPECT_EQ(features_of(field(1, field(2, field(3, kOne)) + field(1, "a"))),
            (FeatureMap{{"a", Integers{1}}}));
}

TEST(Example, UnknownFieldsArePassedOver) {
  // Field 9 as a varint, as 8 bytes, as bytes, as a group with a varint in it, and as 4 bytes.
  const std::string unknown = from_hex(
      "4801"
      "490000000000000000"
      "4a03616263"
      "4b48014c"
      "4d00000000");
  const std::string known = field(3, kOne + unknown) + unknown;
  EXPECT_EQ(features_of(unknown + field(1, field(1, "a") + unknown + field(2, known)) + unknown),
            (FeatureMap{{"a", Integers{1}}}));
  EXPECT_EQ(kind_of_message(bytes_of(unknown)), MessageKind::kOther);
  EXPECT_EQ(kind_of_message(bytes_of("<html>")), MessageKind::kOther);
}

TEST(Example, DamageIsCorruptAndSaysWhere) {
  const std::string good = encode_example({{{"a", Integers{1, 300}}, {"b", Strings{"text"}}}});
  for (size_t length = 1; length < good.size(); ++length) {
    const auto cut = decode_example(bytes_of(good).first(length));
    ASSERT_FALSE(cut.ok()) << length;
    EXPECT_EQ(cut.error().kind(), ErrorKind::kCorrupt);
    EXPECT_THAT(cut.error().message(), HasSubstr("damage at byte "));
  }
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string damaged = good;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    (void)decode_example(bytes_of(damaged));           // an answer,
    (void)decode_sequence_example(bytes_of(damaged));  // whichever
  }
  for (const char* hex : {"0aff",                      // a length without end
                          "0affffffffffffffffffff01",  // of more than ten bytes
                          "0affffffffffffffffff02",    // of more than 64 bits
                          "00", "0401", "4c"}) {       // no field 0, a group's end without begin
    EXPECT_FALSE(decode_example(bytes_of(from_hex(hex))).ok()) << hex;
  }
}

TEST(Example, GoldenVector) {
  const char* folder = std::getenv("MUSTER_TEST_DATA");
  // Files written by others do not come with the project: ./dev test names their folder.
  if (folder == nullptr) GTEST_SKIP() << "MUSTER_TEST_DATA is not set";
  const std::string path = join_path(folder, "../golden/format_vectors.json");
  // The known bytes are next to that folder, and not on every machine.
  if (!local_file_system().exists(path).value()) GTEST_SKIP() << path << " is not there";
  const auto golden = nlohmann::json::parse(local_file_system().read_file(path).value());
  const std::string bytes = from_hex(golden.at("example").at("proto_hex"));
  const FeatureMap expected = {{"a", Integers{1, -1}}, {"b", Floats{0.5f}}, {"c", Strings{"x"}}};
  EXPECT_EQ(decode_example(bytes_of(bytes)).value().features, expected);
  EXPECT_EQ(encode_example({expected}), bytes);
}

// Records that TensorFlow wrote.
class RealRecords : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("MUSTER_TEST_DATA");
    // Files written by others do not come with the project: ./dev test names their folder.
    if (folder == nullptr) GTEST_SKIP() << "MUSTER_TEST_DATA is not set";
    folder_ = join_path(folder, "tensorflow/records");
  }
  std::vector<std::string> records(const std::string& name) {
    auto reader = TfrecordReader::open(local_file_system(), join_path(folder_, name)).value();
    std::vector<std::string> all;
    Bytes payload;
    while (reader.read(&payload).value()) all.emplace_back(text_of(payload));
    return all;
  }
  std::string folder_;
};

TEST_F(RealRecords, ToyIsItsCsv) {
  // The first line of toy.csv is "1,NA,A,A,X,,0,0,1"; a missing value there has no kind.
  const auto records = this->records("toy.nocompress-tfe-tfrecord-00000-of-00002");
  EXPECT_EQ(records, this->records("toy.tfe-tfrecord-00000-of-00002"));
  ASSERT_EQ(records.size(), 3u);
  FeatureMap first = decode_example(bytes_of(records[0])).value().features;
  std::sort(first.begin(), first.end());
  EXPECT_EQ(first, (FeatureMap{{"Bool_1", Integers{0}},
                               {"Bool_2", Integers{0}},
                               {"Cat_1", Strings{"A"}},
                               {"Cat_2", Strings{"A"}},
                               {"Cat_3", Floats{1}},
                               {"Cat_set_1", Strings{"x"}},
                               {"Cat_set_2", std::monostate()},
                               {"Num_1", Floats{1}},
                               {"Num_2", std::monostate()}}));
}

TEST_F(RealRecords, MessagesAreDistinguished) {
  for (const std::string& record : records("taxi_examples.tfrecord")) {
    EXPECT_EQ(kind_of_message(bytes_of(record)), MessageKind::kExample);
    EXPECT_EQ(decode_example(bytes_of(record)).value().features.size(), 3u);
  }
  const auto sequences = records("sequence_examples.gz");
  ASSERT_EQ(sequences.size(), 15'000u);
  EXPECT_EQ(kind_of_message(bytes_of(sequences[0])), MessageKind::kSequenceExample);
  const SequenceExample first = decode_sequence_example(bytes_of(sequences[0])).value();
  ASSERT_EQ(first.feature_lists.size(), 1u);
  EXPECT_EQ(first.feature_lists[0].first, "s");
  EXPECT_EQ(first.feature_lists[0].second, (std::vector<Feature>{Strings{"0"}, Strings{"1"}}));
}

// A map may come in as many parts as it has entries; an entry that occurs twice counts once, at its
// place.
TEST(Example, AMapInPartsIsOneMap) {
  std::string bytes;
  for (int i = 0; i < 1000; ++i)
    bytes += encode_example({{{std::to_string(i % 900), std::vector<int64_t>{i}}}});
  const Example example = decode_example(bytes_of(bytes)).value();
  ASSERT_EQ(example.features.size(), 900u);
  EXPECT_EQ(example.features[5].first, "5");
  EXPECT_EQ(std::get<std::vector<int64_t>>(example.features[5].second), std::vector<int64_t>{905});
}

}  // namespace
}  // namespace muster::inline v0_1::formats
