#include "muster/formats/vocabulary_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/log.h"
#include "muster/base/temp_directory.h"

namespace muster::inline v0_1::formats {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class VocabularyFileTest : public ::testing::Test {
 protected:
  Result<std::vector<std::string>> read(const std::string& text, std::optional<int64_t> most = {}) {
    local_file_system().write_atomically(path_, text).value();
    return read_vocabulary_file(local_file_system(), path_, most);
  }

  TempDirectory folder_;
  const std::string path_ = folder_ / "words.txt";
};

TEST_F(VocabularyFileTest, ALineIsAWordWhateverEndsItAndStandsInFront) {
  EXPECT_THAT(read("a\r\nb c\n\"d\"").value(), ElementsAre("a", "b c", "\"d\""));
  EXPECT_THAT(read("\xef\xbb\xbf"
                   "a\nb\n")
                  .value(),
              ElementsAre("a", "b"));
  EXPECT_THAT(read("\xef\xbb\xbf"
                   "a\r\nb\r\n",
                   1)
                  .value(),
              ElementsAre("a"));
  EXPECT_THAT(read("").value(), ElementsAre());
}

TEST_F(VocabularyFileTest, AWordThatStandsTwiceNamesBothLines) {
  const Error error = read(
                          "\xef\xbb\xbf"
                          "a\r\nb\nc\na\n")
                          .error();
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("words.txt' names \"a\" twice, in lines 1 and 4"));
  // Lines that are not read are not checked.
  EXPECT_THAT(read("a\nb\nc\na\n", 3).value(), ElementsAre("a", "b", "c"));
}

// As in tf.lookup, the words after a blank line keep the ids of their lines.
TEST_F(VocabularyFileTest, ABlankLineKeepsItsIdAndIsReported) {
  ::testing::internal::CaptureStderr();
  EXPECT_THAT(read("a\n\nb\n").value(), ElementsAre("a", "", "b"));
  log::flush();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("line 2 is blank"));
  EXPECT_THAT(read("a\n\nb\r\n\r\n").error().message(), HasSubstr("the lines 2 and 4 are blank"));
}

// Otherwise all of an old Mac's file would be one word.
TEST_F(VocabularyFileTest, OtherLineEndsAreRefused) {
  const Error error = read("a\rb\r").error();
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("line 1 holds \\r"));
  EXPECT_THAT(error.hint(), HasSubstr("tr '\\r' '\\n'"));
  EXPECT_THAT(read("a\nb\rc\n").error().message(), HasSubstr("line 2 holds \\r"));
}

TEST_F(VocabularyFileTest, Utf16AndNoFileAreRefused) {
  EXPECT_THAT(read(std::string("\xff\xfe"
                               "a\0\n\0",
                               6))
                  .error()
                  .message(),
              HasSubstr("UTF-16"));
  EXPECT_EQ(read_vocabulary_file(local_file_system(), folder_ / "none").error().kind(),
            ErrorKind::kNotFound);
}

}  // namespace
}  // namespace muster::inline v0_1::formats
