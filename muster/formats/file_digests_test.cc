#include "muster/formats/file_digests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/base/temp_directory.h"

namespace muster::inline v0_1::formats {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class FileDigestsTest : public ::testing::Test {
 protected:
  static Result<std::optional<FileDigests>> read(const std::string& text) {
    const json parsed = json::parse(text, nullptr, false);
    if (parsed.is_discarded()) return corrupt("no JSON");
    return sealed_digests(text, parsed, "about.json");
  }

  const TempDirectory folder_;
  FileSystem& files_ = local_file_system();
};

TEST_F(FileDigestsTest, FilesMayLieInFoldersOfTheFolder) {
  const FileDigest nine = {9, "crc32c:e3069283"};
  const std::string text = sealed_text(json::object(), {{"variables/variables.index", nine}});
  EXPECT_TRUE(read(text).value()->contains("variables/variables.index"));
}

TEST_F(FileDigestsTest, DigestsAreCrcsOfTheBytes) {
  // RFC 3720's check value.
  const FileDigest nine = {9, "crc32c:e3069283"};
  EXPECT_EQ(digest_of(bytes_of(std::string_view("123456789"))), nine);
  const std::string path = folder_ / "a";
  files_.write_atomically(path, std::string_view("123456789")).value();
  EXPECT_EQ(digest_of_file(files_, path).value(), nine);
  // More than is read at once.
  const std::string large(3'000'000, 'x');
  files_.write_atomically(path, large).value();
  EXPECT_EQ(digest_of_file(files_, path).value(), digest_of(bytes_of(large)));
  EXPECT_TRUE(check_digest(files_, path, digest_of(bytes_of(large))).ok());
  EXPECT_THAT(check_digest(files_, path, nine).error().message(),
              HasSubstr("/a' is damaged: it has 3000000 bytes"));
  EXPECT_EQ(check_digest(files_, folder_ / "b", nine).error().kind(), ErrorKind::kCorrupt);
}

TEST_F(FileDigestsTest, TheSealKnowsEveryByteOfTheText) {
  const FileDigests digests = {{"model.pt", {12, "crc32c:00000001"}}};
  const std::string text =
      sealed_text({{"name", "\"seal\": \"crc32c:"}, {"zero", 0.5}, {"texts", {"a", "b"}}}, digests);
  EXPECT_EQ(read(text).value(), digests);
  for (size_t at = 0; at < text.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string other = text;
      other[at] = static_cast<char>(other[at] ^ (1 << bit));
      const auto got = read(other);
      ASSERT_FALSE(got.ok()) << at << "." << bit << ": " << other;
      EXPECT_EQ(got.error().kind(), ErrorKind::kCorrupt);
    }
  }
}

TEST_F(FileDigestsTest, AFileWithoutDigestsAndSealIsNotSealed) {
  EXPECT_EQ(read(R"({"a": 1})").value(), std::nullopt);
  EXPECT_THAT(read(R"({"files": {}})").error().message(), HasSubstr("its seal is missing"));
  EXPECT_EQ(read(R"({"seal": "crc32c:00000000"})").error().kind(), ErrorKind::kCorrupt);
}

TEST_F(FileDigestsTest, NamesOfFilesAreNotPaths) {
  for (const char* name : {"", ".", "..", "../a", "/a", "a//b", "a/", "a/../b"}) {
    EXPECT_THAT(read(sealed_text(json::object(), {{name, {}}})).error().message(),
                HasSubstr("the name of a file, "))
        << name;
  }
}

}  // namespace
}  // namespace muster::inline v0_1::formats
