#include "muster/formats/tfrecord.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "muster/base/crc32c.h"
#include "muster/base/fault_file_system.h"
#include "muster/base/random.h"
#include "muster/base/temp_directory.h"
#include "muster/formats/event.h"

namespace muster::inline v0_1::formats {
namespace {

using ::testing::HasSubstr;

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

TfrecordReader reader_of(const std::string& bytes) {
  return TfrecordReader(memory_reader(bytes_of(bytes), "test"));
}

std::string framed(const std::vector<std::string>& payloads) {
  std::string bytes;
  for (const std::string& payload : payloads) append_tfrecord(bytes, bytes_of(payload));
  return bytes;
}

TEST(Tfrecord, FramesAsTheFormatSays) {
  EXPECT_EQ(framed({"hello"}), from_hex("0500000000000000eab2043e68656c6c6fbb1f1c19"));
  EXPECT_EQ(framed({""}), from_hex("000000000000000029039807d8ea82a2"));
}

TEST(Tfrecord, ReadsBackWhatWasWritten) {
  const std::vector<std::string> payloads = {"", "a", std::string(200'000, 'x'), "end"};
  const std::string bytes = framed(payloads);
  TfrecordReader reader = reader_of(bytes);
  std::string payload;
  for (const std::string& expected : payloads) {
    ASSERT_TRUE(reader.read(&payload).value());
    EXPECT_EQ(payload, expected);
  }
  EXPECT_FALSE(reader.read(&payload).value());
  EXPECT_EQ(reader.offset(), bytes.size());
}

TEST(Tfrecord, EveryCutIsPartialAndTheRecordsBeforeAreReadable) {
  const std::string bytes = framed({"hello", "", "world!"});
  const std::vector<size_t> borders = {0, 21, 37, 59};
  ASSERT_EQ(bytes.size(), borders.back());
  for (size_t length = 0; length <= bytes.size(); ++length) {
    const std::string cut = bytes.substr(0, length);
    TfrecordReader reader = reader_of(cut);
    std::string payload;
    size_t records = 0;
    RecordState state;
    while ((state = reader.poll(&payload).value()) == RecordState::kRecord) ++records;
    EXPECT_EQ(reader.offset(), borders[records]);
    const bool at_border = borders[records] == length;
    EXPECT_EQ(state, at_border ? RecordState::kEnd : RecordState::kPartial) << length;
    const Result<bool> strict = reader.read(&payload);
    EXPECT_EQ(strict.ok(), at_border) << length;
    if (!strict.ok()) {
      EXPECT_EQ(strict.error().kind(), ErrorKind::kCorrupt);
    }
  }
}

TEST(Tfrecord, EveryFlippedBitIsFound) {
  const std::vector<std::string> payloads = {"hello", "world!"};
  const std::string bytes = framed(payloads);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    TfrecordReader reader = reader_of(damaged);
    std::string payload;
    Result<bool> read = true;
    size_t records = 0;
    while ((read = reader.read(&payload)).ok() && read.value())
      EXPECT_EQ(payload, payloads.at(records++));
    ASSERT_FALSE(read.ok()) << bit;
    EXPECT_EQ(read.error().kind(), ErrorKind::kCorrupt);
    EXPECT_EQ(records, bit / 8 < 21 ? 0u : 1u);
    EXPECT_THAT(read.error().message(), HasSubstr(records == 0 ? "at byte 0" : "at byte 21"));
  }
}

TEST(Tfrecord, AnAbsurdLengthIsPartialAndAllocatesNothing) {
  for (const uint64_t length : {~uint64_t{0}, uint64_t{1} << 62}) {
    std::string bytes;
    append_little_endian<uint64_t>(bytes, length);
    append_little_endian<uint32_t>(bytes, masked_crc32c(bytes_of(bytes)));
    bytes += "payload";
    std::string payload;
    EXPECT_EQ(reader_of(bytes).poll(&payload).value(), RecordState::kPartial);
  }
}

TEST(Tfrecord, FollowsAGrowingFile) {
  TempDirectory temp;
  FileSystem& files = local_file_system();
  auto writer = files.open_writer(temp / "log").value();
  TfrecordReader reader(files.open_reader(temp / "log").value());
  std::string payload;
  EXPECT_EQ(reader.poll(&payload).value(), RecordState::kEnd);
  const std::string record = framed({"first"});
  writer->append(bytes_of(record.substr(0, 14))).value();
  EXPECT_EQ(reader.poll(&payload).value(), RecordState::kPartial);
  writer->append(bytes_of(record.substr(14))).value();
  write_tfrecord(*writer, bytes_of("second")).value();
  EXPECT_EQ(reader.poll(&payload).value(), RecordState::kRecord);
  EXPECT_EQ(payload, "first");
  EXPECT_EQ(reader.poll(&payload).value(), RecordState::kRecord);
  EXPECT_EQ(payload, "second");
  EXPECT_EQ(reader.poll(&payload).value(), RecordState::kEnd);
}

// Byte vectors computed independently from the description of the formats.
class GoldenVectors : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("MUSTER_TEST_DATA");
    if (folder == nullptr) GTEST_SKIP() << "MUSTER_TEST_DATA is not set";
    const std::string path = join_path(folder, "../golden/format_vectors.json");
    if (!local_file_system().exists(path).value()) GTEST_SKIP() << path << " is not there";
    golden_ = nlohmann::json::parse(local_file_system().read_file(path).value());
  }
  nlohmann::json golden_;
};

TEST_F(GoldenVectors, Checksums) {
  ASSERT_FALSE(golden_["crc32c"].empty());
  for (const auto& vector : golden_["crc32c"]) {
    const uint32_t crc = crc32c(bytes_of(from_hex(vector["hex"])));
    EXPECT_EQ(crc, std::stoul(vector["crc32c"].get<std::string>(), nullptr, 16));
    EXPECT_EQ(mask_crc32c(crc), std::stoul(vector["masked"].get<std::string>(), nullptr, 16));
  }
}

TEST_F(GoldenVectors, Records) {
  ASSERT_FALSE(golden_["tfrecord"].empty());
  for (const auto& vector : golden_["tfrecord"]) {
    std::vector<std::string> payloads;
    for (const auto& hex : vector["payloads_hex"]) payloads.push_back(from_hex(hex));
    EXPECT_EQ(framed(payloads), from_hex(vector["file_hex"]));
  }
}

TEST_F(GoldenVectors, Events) {
  ASSERT_FALSE(golden_["event"].empty());
  for (const auto& vector : golden_["event"]) {
    Event event{.wall_time = vector["wall_time"], .step = vector.value("step", 0)};
    event.file_version = vector.value("file_version", "");
    if (vector.contains("tag"))
      event.values = {{vector["tag"], vector["simple_value"].get<float>()}};
    const std::string bytes = encode_event(event).value();
    EXPECT_EQ(bytes, from_hex(vector["proto_hex"]));
    EXPECT_EQ(framed({bytes}), from_hex(vector["record_hex"]));
  }
}

TEST(RealFiles, RecordsOfOthers) {
  const char* folder = std::getenv("MUSTER_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "MUSTER_TEST_DATA is not set";
  FileSystem& files = local_file_system();
  TfrecordReader taxi(
      files.open_reader(join_path(folder, "tensorflow/records/taxi_examples.tfrecord")).value());
  std::string payload;
  int records = 0;
  while (taxi.read(&payload).value()) ++records;
  EXPECT_EQ(records, 10);
  TfrecordReader other(
      files.open_reader(join_path(folder, "tensorflow/records/not_a_tfrecord.recordio.gz"))
          .value());
  EXPECT_EQ(other.read(&payload).error().kind(), ErrorKind::kCorrupt);
}

}  // namespace
}  // namespace muster::inline v0_1::formats
