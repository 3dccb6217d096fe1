#include "muster/formats/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "muster/base/fault_file_system.h"
#include "muster/base/random.h"
#include "muster/base/temp_directory.h"
#include "muster/formats/internal/test_bytes.h"

namespace muster::inline v0_1::formats {
namespace {

using ::testing::HasSubstr;

std::string written(std::span<const TensorView> tensors, const SafetensorsMetadata& metadata = {}) {
  StringSink sink;
  write_safetensors(sink, tensors, metadata).value();
  return sink.content;
}

Result<SafetensorsReader> open_tensors(const std::string& bytes) {
  return SafetensorsReader::open(
      std::shared_ptr<FileReader>(memory_reader(bytes_of(bytes), "test")));
}

// A file with this header text and this much data.
std::string file_with(std::string header, size_t data_bytes) {
  std::string bytes;
  append_little_endian<uint64_t>(bytes, header.size());
  return bytes + header + std::string(data_bytes, 'd');
}

const std::string kFloats(24, '\x11');
const std::vector<TensorView> kTensors = {
    {"mask", "BOOL", {3}, bytes_of("\x01\x01\x01")},
    {"dense/kernel", "F32", {2, 3}, bytes_of(kFloats)},
    {"empty", "F32", {0, 7}, {}},
    {"step", "I64", {}, bytes_of("12345678")},
};

TEST(Safetensors, RoundTrips) {
  TempDirectory temp;
  auto staged = local_file_system().open_staged(temp / "a.safetensors").value();
  write_safetensors(*staged, kTensors, {{"format_version", "1"}, {"quote\"", "é"}}).value();
  staged->commit().value();
  const auto reader = SafetensorsReader::open(local_file_system(), temp / "a.safetensors").value();
  EXPECT_EQ(reader.metadata(), (SafetensorsMetadata{{"format_version", "1"}, {"quote\"", "é"}}));
  ASSERT_EQ(reader.tensors().size(), kTensors.size());
  for (const TensorView& tensor : kTensors) {
    const TensorEntry* entry = reader.find(tensor.name);
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->dtype, tensor.dtype);
    EXPECT_EQ(entry->shape, tensor.shape);
    EXPECT_EQ(entry->offset % (*safetensors_bits(tensor.dtype) / 8), 0u)
        << "aligned in a mapped file";
    EXPECT_EQ(reader.read(tensor.name).value(), text_of(tensor.data));
  }
  EXPECT_EQ(reader.find("kernel"), nullptr);
  EXPECT_THAT(reader.read("kernel").error().message(), HasSubstr("'dense/kernel'"));
  EXPECT_EQ(reader.read("dense/kernal").error().hint(), "did you mean 'dense/kernel'?");
  std::string small(3, '\0');
  EXPECT_FALSE(reader.read(*reader.find("step"), std::as_writable_bytes(std::span(small))).ok());
}

// A disk takes a few large writes with less work than many small ones.
TEST(Safetensors, TensorsThatFollowEachOtherInMemoryAreWrittenTogether) {
  class Pieces final : public ByteSink {
   public:
    Status append(Bytes bytes) override {
      pieces.emplace_back(text_of(bytes));
      return {};
    }
    std::vector<std::string> pieces;
  };
  const std::string memory = "12345678abcdefgh", elsewhere = "ABCD";
  const Bytes all = bytes_of(memory);
  const std::vector<TensorView> tensors = {
      {"half", "F16", {2}, all.subspan(12)},      {"empty", "F32", {0}, {}},
      {"float", "F32", {1}, all.subspan(8, 4)},   {"none", "F16", {0}, all.subspan(16)},
      {"other", "F16", {2}, bytes_of(elsewhere)}, {"step", "I64", {}, all.first(8)}};
  Pieces sink;
  write_safetensors(sink, tensors).value();
  ASSERT_EQ(sink.pieces.size(), 3u);  // the header is the first
  EXPECT_EQ(sink.pieces[1], memory);
  EXPECT_EQ(sink.pieces[2], elsewhere);
}

TEST(Safetensors, HeaderIsPaddedAndOrdered) {
  const std::string bytes = written(
      std::vector<TensorView>{{"b", "U8", {2}, bytes_of("xy")}, {"a", "U8", {}, bytes_of("z")}});
  const std::string header = R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                             R"("a":{"dtype":"U8","shape":[],"data_offsets":[2,3]}})";
  const auto length = load_little_endian<uint64_t>(bytes.data());
  EXPECT_EQ(length % 8, 0u);
  EXPECT_EQ(bytes.substr(8, header.size()), header);
  EXPECT_EQ(bytes.substr(8 + header.size(), length - header.size()),
            std::string(length - header.size(), ' '));
  EXPECT_EQ(bytes.substr(8 + length), "xyz");
}

TEST(Safetensors, EmptyFileIsFine) {
  const auto reader = open_tensors(written({})).value();
  EXPECT_TRUE(reader.tensors().empty());
}

TEST(Safetensors, RefusesToWriteWhatReadersRefuse) {
  const auto fails = [](std::vector<TensorView> tensors, const SafetensorsMetadata& metadata = {}) {
    StringSink sink;
    const Status status = write_safetensors(sink, tensors, metadata);
    EXPECT_TRUE(sink.content.empty());
    return !status.ok() && status.error().kind() == ErrorKind::kInvalidArgument;
  };
  EXPECT_TRUE(fails({{"a", "F31", {1}, bytes_of("1234")}}));
  EXPECT_TRUE(fails({{"a", "F32", {2}, bytes_of("1234")}}));
  EXPECT_TRUE(fails({{"a", "F32", {-1}, bytes_of("1234")}}));
  EXPECT_TRUE(fails({{"__metadata__", "U8", {1}, bytes_of("1")}}));
  EXPECT_TRUE(fails({{"a", "U8", {1}, bytes_of("1")}, {"a", "U8", {1}, bytes_of("1")}}));
  EXPECT_TRUE(fails({{"a\xff", "U8", {1}, bytes_of("1")}}));
  EXPECT_TRUE(fails({}, {{"k", "\xff"}}));
}

TEST(Safetensors, EveryPrefixIsCorrupt) {
  const std::string bytes = written(kTensors, {{"a", "b"}});
  ASSERT_TRUE(open_tensors(bytes).ok());
  for (size_t length = 0; length < bytes.size(); ++length) {
    const auto reader = open_tensors(bytes.substr(0, length));
    ASSERT_FALSE(reader.ok()) << length;
    EXPECT_EQ(reader.error().kind(), ErrorKind::kCorrupt);
  }
  EXPECT_FALSE(open_tensors(bytes + "x").ok());
}

TEST(Safetensors, FlippedBitsGiveAnAnswer) {
  const std::string bytes = written(kTensors, {{"a", "b"}});
  const size_t front = 8 + load_little_endian<uint64_t>(bytes.data());
  for (size_t bit = 0; bit < front * 8; ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const auto reader = open_tensors(damaged);
    if (!reader.ok()) {
      EXPECT_EQ(reader.error().kind(), ErrorKind::kCorrupt);
      continue;
    }
    // What passes is self-consistent: everything it lists can be read.
    for (const TensorEntry& entry : reader.value().tensors()) {
      EXPECT_EQ(reader.value().read(entry.name).value().size(), entry.bytes);
    }
  }
}

TEST(Safetensors, RefusesHostileHeaders) {
  const auto entry = [](const std::string& dtype, const std::string& shape,
                        const std::string& offsets) {
    return "{\"dtype\":" + dtype + ",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
  };
  const auto times = [](const std::string& text, int count) {
    std::string all;
    for (int i = 0; i < count; ++i) all += text;
    return all;
  };
  const std::string good = entry("\"U8\"", "[4]", "[0,4]");
  // What nobody knows next to what is needed does no harm, and a shape may have many axes.
  ASSERT_TRUE(open_tensors(file_with("{\"a\":" +
                                         entry("\"U8\"", "[" + times("1,", 250) + "4]",
                                               "[0,4],\"note\":{\"by\":[null]}") +
                                         "}",
                                     4))
                  .ok());
  ASSERT_TRUE(open_tensors(file_with("{\"a\":" + good + "}", 4)).ok());
  const std::vector<std::pair<std::string, size_t>> cases = {
      {"[]", 0},
      {"{\"a\":3}", 0},
      {"{\"a\":" + entry("\"X8\"", "[4]", "[0,4]") + "}", 4},
      {"{\"a\":" + entry("8", "[4]", "[0,4]") + "}", 4},
      {"{\"a\":" + entry("\"U8\"", "4", "[0,4]") + "}", 4},
      {"{\"a\":" + entry("\"U8\"", "[-4]", "[0,4]") + "}", 4},
      {"{\"a\":" + entry("\"U8\"", "[4.0]", "[0,4]") + "}", 4},
      {"{\"a\":" + entry("\"U8\"", "[4]", "[4,0]") + "}", 4},
      {"{\"a\":" + entry("\"U8\"", "[4]", "[0,4,4]") + "}", 4},
      {"{\"a\":" + entry("\"U8\"", "[4]", "[0,5]") + "}", 5},
      {"{\"a\":" + entry("\"U8\"", "[4]", "[1,5]") + "}", 5},
      {"{\"a\":" + entry("\"U8\"", "[4]", "[-1,3]") + "}", 4},
      {"{\"a\":" + entry("\"F4\"", "[3]", "[0,1]") + "}", 1},
      {"{\"a\":" + entry("\"U8\"", "[4294967296,4294967296]", "[0,0]") + "}", 0},
      {"{\"a\":" + entry("\"U8\"", "[99999999999999999999]", "[0,4]") + "}", 4},
      {"{\"a\":" + good + ",\"a\":" + good + "}", 4},
      {"{\"a\":" + good + ",\"b\":" + good + "}", 4},
      {"{\"a\":" + good + ",\"b\":" + entry("\"U8\"", "[4]", "[6,10]") + "}", 10},
      {"{\"a\":" + good + "}", 3},
      {"{\"a\":" + good + "}", 5},
      {"{\"__metadata__\":{\"k\":1}}", 0},
      {"{\"__metadata__\":{\"k\":[]}}", 0},
      {"{\"__metadata__\":{\"k\":{}}}", 0},
      {"{\"__metadata__\":{\"k\":\"\",\"k\":\"\"}}", 0},
      {"{\"__metadata__\":{},\"__metadata__\":{}}", 0},
      {"{\"__metadata__\":\"k\"}", 0},
      {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4},
      {"{\"a\":" + entry("\"U8\"", "[" + times("1,", 400) + "4]", "[0,4]") + "}", 4},
      {"{\"a\":" + times("[", 1000), 0},
      {"{\"a\":" + good + "} x", 4},
      {"{\"__metadata__\":[]}", 0},
  };
  for (const auto& [header, data] : cases) {
    const auto reader = open_tensors(file_with(header, data));
    ASSERT_FALSE(reader.ok()) << header;
    EXPECT_EQ(reader.error().kind(), ErrorKind::kCorrupt) << header;
    EXPECT_THAT(reader.error().message(), HasSubstr("'test'"));
  }
  std::string huge;
  append_little_endian<uint64_t>(huge, uint64_t{1} << 60);
  EXPECT_THAT(open_tensors(huge + "{}").error().message(), HasSubstr("1152921504606846976"));
}

TEST(Safetensors, NamesTheFormatsThatPeopleTakeForIt) {
  const auto error_of = [](const std::string& first_bytes) {
    return std::string(open_tensors(first_bytes + std::string(100, 'x')).error().what());
  };
  EXPECT_THAT(error_of("\x89HDF\r\n\x1a\n"), HasSubstr("not supported: 'test' is an HDF5 file"));
  EXPECT_THAT(error_of("PK\x03\x04"), HasSubstr("not supported: 'test' is a zip archive"));
}

TEST(Safetensors, FullDiskReachesTheCaller) {
  TempDirectory temp;
  FaultFileSystem files(local_file_system(), {.no_space_from = 2});
  auto staged = files.open_staged(temp / "a").value();
  const Status status = write_safetensors(*staged, kTensors);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind(), ErrorKind::kInvalidArgument);
}

// As one tree of JSON they took time for each pair of them: minutes for these.
TEST(Safetensors, ManyTensorsAreReadInOrder) {
  std::string header = "{";
  for (int i = 0; i < 100'000; ++i) {
    header += (i == 0 ? "\"" : ",\"") + std::to_string(i) +
              R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  }
  const auto reader = open_tensors(file_with(header + "}", 0)).value();
  EXPECT_EQ(reader.tensors().size(), 100'000u);
  EXPECT_NE(reader.find("99999"), nullptr);
}

TEST(RealFiles, SafetensorsOfOthers) {
  const char* folder = std::getenv("MUSTER_TEST_DATA");
  // Files written by others do not come with the project: ./dev test names their folder.
  if (folder == nullptr) GTEST_SKIP() << "MUSTER_TEST_DATA is not set";
  FileSystem& files = local_file_system();
  const std::string root = join_path(folder, "safetensors");
  int count = 0;
  for (const std::string& name : files.list_directory(root).value()) {
    if (!name.ends_with(".safetensors")) continue;
    ++count;
    const auto reader = SafetensorsReader::open(files, join_path(root, name)).value();
    EXPECT_EQ(reader.metadata().at("test"), "a");
    // What we write from it reads the same.
    std::vector<std::string> data;
    std::vector<TensorView> views;
    for (const TensorEntry& entry : reader.tensors())
      data.push_back(reader.read(entry.name).value());
    for (size_t i = 0; i < data.size(); ++i) {
      const TensorEntry& entry = reader.tensors()[i];
      views.push_back({entry.name, entry.dtype, entry.shape, bytes_of(data[i])});
    }
    const std::string again = written(views, reader.metadata());
    const auto second = open_tensors(again).value();
    for (size_t i = 0; i < data.size(); ++i) EXPECT_EQ(second.read(views[i].name).value(), data[i]);
  }
  EXPECT_EQ(count, 10);
  const auto all = SafetensorsReader::open(files, join_path(root, "overall.safetensors")).value();
  EXPECT_EQ(all.tensors().size(), 9u);
}

}  // namespace
}  // namespace muster::inline v0_1::formats
