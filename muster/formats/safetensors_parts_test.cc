#include "muster/formats/safetensors_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "muster/base/crc32c.h"
#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/formats/safetensors.h"

namespace muster::inline v0_1::formats {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// Six floats in two files, and none at all.
SafetensorsParts two_files() {
  SafetensorsParts parts{.files = {{"a", 100}, {"b", 50}}};
  parts.tensors["table"] = {"F32", {3, 2}, {{0, 40, 16, 1}, {1, 42, 8, 2}}};
  parts.tensors["none"] = {"F32", {0, 2}, {}};
  return parts;
}

TEST(SafetensorsParts, ReadAsTheyWereWritten) {
  const SafetensorsParts parts = two_files();
  EXPECT_EQ(SafetensorsParts::parse(parts.to_text(), "parts").value(), parts);
}

TEST(SafetensorsParts, ImpossibleTablesAreCorrupt) {
  const json good = json::parse(two_files().to_text());
  const std::vector<std::pair<std::string, std::function<void(json&)>>> mistakes = {
      {"list no file",
       [](json& table) {
         table = {{"files", json::array()}, {"tensors", {}}};
       }},
      {"not as they should be", [](json& table) { table.erase("tensors"); }},
      {"not as they should be", [](json& table) { table["files"][0].erase("bytes"); }},
      {"not a whole number", [](json& table) { table["files"][0]["bytes"] = -1; }},
      {"not a name of a file", [](json& table) { table["files"][0]["name"] = "../a"; }},
      {"not a name of a file", [](json& table) { table["files"][0]["name"] = "/etc/passwd"; }},
      {"not a name of a file", [](json& table) { table["files"][0]["name"] = ".."; }},
      {"not a name of a file", [](json& table) { table["files"][0]["name"] = ""; }},
      {"unknown dtype", [](json& table) { table["tensors"]["table"]["dtype"] = "F31"; }},
      {"takes 32",
       [](json& table) {
         table["tensors"]["table"]["shape"] = {4, 2};
       }},
      {"not listed", [](json& table) { table["tensors"]["table"]["pieces"][0][0] = 2; }},
      {"after the end of 'b'", [](json& table) { table["tensors"]["table"]["pieces"][1][1] = 43; }},
      {"after the end of 'a'",
       [](json& table) { table["tensors"]["table"]["pieces"][0][1] = UINT64_MAX; }},
      {"not a whole number", [](json& table) { table["tensors"]["table"]["pieces"][0][2] = 16.5; }},
  };
  for (const auto& [expected, make] : mistakes) {
    json bad = good;
    make(bad);
    const auto parsed = SafetensorsParts::parse(bad.dump(), "the parts");
    ASSERT_FALSE(parsed.ok()) << bad;
    EXPECT_EQ(parsed.error().kind(), ErrorKind::kCorrupt);
    EXPECT_THAT(parsed.error().message(), HasSubstr(expected));
    EXPECT_THAT(parsed.error().message(), HasSubstr("the parts"));
  }
  EXPECT_EQ(SafetensorsParts::parse("{", "the parts").error().kind(), ErrorKind::kCorrupt);
}

// A file of a tensor of its own and one in two parts, the bytes of which count up.
class SafetensorsInParts : public ::testing::Test {
 protected:
  SafetensorsInParts() {
    for (int i = 0; i < 24; ++i) bytes_.push_back(static_cast<char>('a' + i));
    write("a", "xxxx" + bytes_.substr(0, 16));
    write("b", bytes_.substr(16));
    parts_ = {.files = {{"a", 20}, {"b", 8}}};
    parts_.tensors["table"] = {"F32",
                               {3, 2},
                               {{0, 4, 16, crc32c(bytes_of(bytes_.substr(0, 16)))},
                                {1, 0, 8, crc32c(bytes_of(bytes_.substr(16)))}}};
    write_index("table of its own");
  }

  void write(const std::string& name, const std::string& content) {
    files_.write_atomically(folder_ / name, std::string_view(content)).value();
  }
  // With a tensor of that name in the file itself.
  void write_index(const std::string& own) {
    const std::string step(8, 's');
    StringSink sink;
    write_safetensors(sink, std::vector<TensorView>{{own, "I64", {}, bytes_of(step)}},
                      {{std::string(kSafetensorsParts), parts_.to_text()}})
        .value();
    write("index", sink.content);
  }
  Result<SafetensorsReader> open() { return SafetensorsReader::open(files_, folder_ / "index"); }

  TempDirectory folder_;
  FileSystem& files_ = local_file_system();
  std::string bytes_;
  SafetensorsParts parts_;
};

TEST_F(SafetensorsInParts, AnyRangeIsReadAcrossFiles) {
  const SafetensorsReader reader = open().value();
  EXPECT_EQ(reader.parts(), parts_);
  ASSERT_EQ(reader.tensors().size(), 2u);
  EXPECT_EQ(reader.read("table").value(), bytes_);
  const TensorEntry& entry = *reader.find("table");
  for (size_t begin = 0; begin <= bytes_.size(); ++begin) {
    for (size_t end = begin; end <= bytes_.size(); ++end) {
      std::string range(end - begin, '\0');
      reader.read_range(entry, begin, std::as_writable_bytes(std::span(range))).value();
      EXPECT_EQ(range, bytes_.substr(begin, end - begin));
    }
  }
  std::string behind(2, '\0');
  EXPECT_EQ(reader.read_range(entry, 23, std::as_writable_bytes(std::span(behind))).error().kind(),
            ErrorKind::kInvalidArgument);
}

TEST_F(SafetensorsInParts, DamageIsNamed) {
  write("a", "xxxx" + std::string(16, 'z'));
  const SafetensorsReader reader = open().value();
  const Error error = reader.read("table").error();
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.message(),
              HasSubstr("/a': the bytes 4 to 20, which are of the tensor 'table'"));
  // Tensors in other parts are as good as before.
  std::string tail(8, '\0');
  reader.read_range(*reader.find("table"), 16, std::as_writable_bytes(std::span(tail))).value();
  EXPECT_EQ(tail, bytes_.substr(16));
}

TEST_F(SafetensorsInParts, AllFilesMustBeThere) {
  write("b", "short");
  EXPECT_THAT(open().error().message(), HasSubstr("has 5 bytes, and had 8"));
  files_.remove(folder_ / "b").value();
  const Error error = open().error();
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.message(), HasSubstr("lacks a part"));
}

TEST_F(SafetensorsInParts, OneTensorIsInOnePlace) {
  write_index("table");
  EXPECT_THAT(open().error().message(), HasSubstr("in parts as well"));
}

TEST_F(SafetensorsInParts, BytesAloneDoNotFindThem) {
  const std::string index = files_.read_file(folder_ / "index").value();
  const Error error = SafetensorsReader::open(memory_reader(bytes_of(index), "bytes")).error();
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("has parts in other files of its folder"));
}

}  // namespace
}  // namespace muster::inline v0_1::formats
