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
#include "muster/formats/gzip.h"
#include "muster/formats/internal/test_bytes.h"

namespace muster::inline v0_1::formats {
namespace {

using ::testing::HasSubstr;

TfrecordReader tfrecord_reader(const std::string& bytes) {
  return TfrecordReader::open(memory_reader(bytes_of(bytes), "test")).value();
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
  TfrecordReader reader = tfrecord_reader(bytes);
  Bytes payload;
  for (const std::string& expected : payloads) {
    ASSERT_TRUE(reader.read(&payload).value());
    EXPECT_EQ(text_of(payload), expected);
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
    TfrecordReader reader = tfrecord_reader(cut);
    Bytes payload;
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
    TfrecordReader reader = tfrecord_reader(damaged);
    Bytes payload;
    Result<bool> read = true;
    size_t records = 0;
    while ((read = reader.read(&payload)).ok() && read.value())
      EXPECT_EQ(text_of(payload), payloads.at(records++));
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
    Bytes payload;
    EXPECT_EQ(tfrecord_reader(bytes).poll(&payload).value(), RecordState::kPartial);
  }
}

TEST(Tfrecord, FollowsAGrowingFile) {
  TempDirectory temp;
  FileSystem& files = local_file_system();
  auto writer = files.open_writer(temp / "log").value();
  TfrecordReader reader = TfrecordReader::open(files, temp / "log").value();
  Bytes payload;
  EXPECT_EQ(reader.poll(&payload).value(), RecordState::kEnd);
  const std::string record = framed({"first"});
  writer->append(bytes_of(record.substr(0, 14))).value();
  EXPECT_EQ(reader.poll(&payload).value(), RecordState::kPartial);
  writer->append(bytes_of(record.substr(14))).value();
  write_tfrecord(*writer, bytes_of("second")).value();
  EXPECT_EQ(reader.poll(&payload).value(), RecordState::kRecord);
  EXPECT_EQ(text_of(payload), "first");
  EXPECT_EQ(reader.poll(&payload).value(), RecordState::kRecord);
  EXPECT_EQ(text_of(payload), "second");
  EXPECT_EQ(reader.poll(&payload).value(), RecordState::kEnd);
}

TEST(Tfrecord, AfterADamagedPayloadReadingGoesOn) {
  std::string bytes = framed({"hello", "world!", "end"});
  bytes[21 + 12] ^= 1;
  TfrecordReader reader = tfrecord_reader(bytes);
  Bytes payload;
  EXPECT_TRUE(reader.read(&payload).value());
  const Error error = reader.read(&payload).error();
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.message(), HasSubstr("content of the record at byte 21"));
  EXPECT_TRUE(reader.read(&payload).value());
  EXPECT_EQ(text_of(payload), "end");
  EXPECT_FALSE(reader.read(&payload).value());
}

TEST(Tfrecord, ADamagedLengthEndsTheFile) {
  std::string bytes = framed({"hello", "world!", "end"});
  bytes[21] ^= 1;
  TfrecordReader reader = tfrecord_reader(bytes);
  Bytes payload;
  EXPECT_TRUE(reader.read(&payload).value());
  EXPECT_FALSE(reader.read(&payload).ok());
  EXPECT_FALSE(reader.read(&payload).value());
  EXPECT_EQ(reader.offset(), bytes.size());  // continuing there is at the end too
  reader.seek(0).value();
  EXPECT_TRUE(reader.read(&payload).value());
  EXPECT_EQ(text_of(payload), "hello");
}

// A record of each size around the buffers' borders, in every compression.
class CompressedRecords : public ::testing::TestWithParam<Compression> {
 protected:
  std::string write(const std::vector<std::string>& payloads) {
    auto writer =
        TfrecordWriter::open(local_file_system(), temp_ / "records", {.compression = GetParam()})
            .value();
    for (const std::string& payload : payloads) writer.write(bytes_of(payload)).value();
    writer.close().value();
    return temp_ / "records";
  }

  TempDirectory temp_;
};
INSTANTIATE_TEST_SUITE_P(Tfrecord, CompressedRecords,
                         ::testing::Values(Compression::kNone, Compression::kGzip,
                                           Compression::kZlib),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST_P(CompressedRecords, AreFoundOutSkippedAndSought) {
  std::vector<std::string> payloads;
  for (int i = 0; i < 300; ++i)
    payloads.emplace_back(static_cast<size_t>(i * i % 9001), 'a' + i % 26);
  payloads.emplace_back(700'000, 'z');  // larger than the buffer
  payloads.emplace_back("end");
  const std::string path = write(payloads);
  TfrecordReader reader = TfrecordReader::open(local_file_system(), path).value();
  EXPECT_EQ(reader.compression(), GetParam());
  std::vector<uint64_t> offsets;
  Bytes payload;
  for (const std::string& expected : payloads) {
    offsets.push_back(reader.offset());
    ASSERT_TRUE(reader.read(&payload).value());
    ASSERT_EQ(text_of(payload), expected);
  }
  EXPECT_FALSE(reader.read(&payload).value());
  for (const size_t at : {size_t{0}, size_t{150}, payloads.size() - 2, size_t{149}}) {
    reader.seek(offsets[at]).value();
    ASSERT_TRUE(reader.read(&payload).value());
    EXPECT_EQ(text_of(payload), payloads[at]);
    TfrecordReader skipping = TfrecordReader::open(local_file_system(), path).value();
    EXPECT_EQ(skipping.skip(static_cast<int64_t>(at)).value(), static_cast<int64_t>(at));
    EXPECT_EQ(skipping.offset(), offsets[at]);
    ASSERT_TRUE(skipping.read(&payload).value());
    EXPECT_EQ(text_of(payload), payloads[at]);
    const auto rest = static_cast<int64_t>(payloads.size() - at) - 1;
    EXPECT_EQ(skipping.skip(1'000'000).value(), rest);
    EXPECT_FALSE(skipping.read(&payload).value());
  }
}

TEST_P(CompressedRecords, SkippingCountsAsReadingDoes) {
  const std::string good = framed({"hello", "world!", "", "end"});
  const auto count_reads = [](TfrecordReader reader) {
    Bytes payload;
    int64_t count = 0;
    while (true) {
      const Result<bool> read = reader.read(&payload);
      if (read.ok() && !read.value()) return count;
      ++count;
    }
  };
  // What cannot be skipped is an error, and takes a place as in reading.
  const auto count_skips = [](TfrecordReader reader) {
    for (int64_t count = 0;; ++count) {
      const Result<int64_t> skipped = reader.skip(1);
      if (skipped.ok() && skipped.value() == 0) return count;
    }
  };
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string damaged = good;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    if (GetParam() == Compression::kGzip) damaged = gzip(bytes_of(damaged));
    EXPECT_EQ(count_skips(tfrecord_reader(damaged)), count_reads(tfrecord_reader(damaged))) << bit;
  }
  for (size_t length = 0; length < good.size(); ++length) {
    std::string cut = good.substr(0, length);
    if (GetParam() == Compression::kGzip) cut = gzip(bytes_of(cut));
    EXPECT_EQ(count_skips(tfrecord_reader(cut)), count_reads(tfrecord_reader(cut))) << length;
  }
}

TEST(TfrecordWriter, NothingAppearsUnlessItIsClosed) {
  TempDirectory temp;
  FileSystem& files = local_file_system();
  {
    auto writer = TfrecordWriter::open(files, temp / "a").value();
    writer.write(bytes_of("x")).value();
  }
  EXPECT_TRUE(files.list_directory(temp.path()).value().empty());
  FaultFileSystem full(files, {.no_space_from = 1});
  auto writer = TfrecordWriter::open(full, temp / "b").value();
  EXPECT_FALSE(writer.write(bytes_of(std::string(1'000'000, 'x'))).ok());
  EXPECT_FALSE(writer.write(bytes_of("x")).ok());
  EXPECT_EQ(writer.close().error().kind(), ErrorKind::kInvalidArgument);
  EXPECT_FALSE(files.exists(temp / "b").value());
  EXPECT_EQ(TfrecordWriter::open(files, temp / "c", {.level = 10}).error().kind(),
            ErrorKind::kInvalidArgument);
}

// Byte vectors computed independently from the description of the formats.
class GoldenVectors : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("MUSTER_TEST_DATA");
    // Files written by others do not come with the project: ./dev test names their folder.
    if (folder == nullptr) GTEST_SKIP() << "MUSTER_TEST_DATA is not set";
    const std::string path = join_path(folder, "../golden/format_vectors.json");
    // The known bytes stand in addition folder, and not everywhere.
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
  // Files written by others do not come with the project: ./dev test names their folder.
  if (folder == nullptr) GTEST_SKIP() << "MUSTER_TEST_DATA is not set";
  FileSystem& files = local_file_system();
  const std::string folder_of_records = join_path(folder, "tensorflow/records");
  Bytes payload;
  struct Known {
    const char* name{};
    Compression compression;
    int records{};
  };
  for (const Known& known :
       {Known{"taxi_examples.tfrecord", Compression::kNone, 10},
        Known{"toy.nocompress-tfe-tfrecord-00000-of-00002", Compression::kNone, 3},
        Known{"toy.tfe-tfrecord-00000-of-00002", Compression::kGzip, 3},
        Known{"toy.tfe-tfrecord-00001-of-00002", Compression::kGzip, 1},
        Known{"sentences.tfe-tfrecord", Compression::kGzip, 2}}) {
    TfrecordReader reader =
        TfrecordReader::open(files, join_path(folder_of_records, known.name)).value();
    EXPECT_EQ(reader.compression(), known.compression) << known.name;
    int records = 0;
    while (reader.read(&payload).value()) ++records;
    EXPECT_EQ(records, known.records) << known.name;
  }
  // Whatever its name says: packed it is not a TFRecord file, unpacked it is one.
  const std::string other = join_path(folder_of_records, "not_a_tfrecord.recordio.gz");
  TfrecordReader plain = TfrecordReader::open(files, other, Compression::kNone).value();
  const Error refused = plain.read(&payload).error();
  EXPECT_EQ(refused.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(refused.message(), HasSubstr("at byte 0"));
  EXPECT_THAT(refused.hint(), HasSubstr("compressed as gzip"));
  EXPECT_EQ(TfrecordReader::open(files, other).value().skip(1'000'000).value(), 9769);
}

TEST(TfrecordReader, AShortTextIsPerhapsNoTfrecordFile) {
  const TempDirectory dir;
  local_file_system().write_atomically(dir / "t", std::string("ten bytes\n")).value();
  auto reader = TfrecordReader::open(local_file_system(), dir / "t", Compression::kAuto).value();
  Bytes payload;
  EXPECT_NE(std::string(reader.read(&payload).error().what()).find("or is not a TFRecord file"),
            std::string::npos);
}

}  // namespace
}  // namespace muster::inline v0_1::formats
