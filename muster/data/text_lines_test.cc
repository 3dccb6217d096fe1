#include "muster/data/text_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/formats/gzip.h"

namespace muster::inline v0_1::data {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> read_all(ElementReader& reader, int64_t count) {
  std::vector<std::string> lines;
  Element rows;
  while (const int64_t got = reader.read(count, &rows)) {
    EXPECT_LE(got, count);
    EXPECT_EQ(rows.value().strings().shape(), Shape{got});
    for (int64_t i = 0; i < got; ++i) lines.emplace_back(rows.value().strings()[i]);
  }
  return lines;
}

TEST(TextLines, GivesLinesAndPositions) {
  const TempDirectory dir;
  const std::string text = "one\n\nthree\r\nfour";
  for (const bool packed : {false, true}) {
    local_file_system()
        .write_atomically(dir / "t", packed ? formats::gzip(bytes_of(text)) : text)
        .value();
    const auto format = text_line_format();
    EXPECT_EQ(format->kind(), "text");
    for (const int64_t count : {1, 2, 100}) {
      EXPECT_THAT(read_all(*format->open(local_file_system(), dir / "t"), count),
                  ElementsAre("one", "", "three", "four"));
    }
    const auto reader = format->open(local_file_system(), dir / "t");
    EXPECT_EQ(reader->tell(), 0);
    EXPECT_EQ(reader->skip(2), 2);
    EXPECT_EQ(reader->tell(), 5);
    EXPECT_EQ(reader->skip(100), 2);
    EXPECT_EQ(reader->tell(), 16);
    reader->seek(5);
    EXPECT_THAT(read_all(*reader, 2), ElementsAre("three", "four"));
    EXPECT_EQ(error_of([&] { reader->seek(2); }).kind(), ErrorKind::kInvalidArgument);
    EXPECT_EQ(error_of([&] { reader->seek(-1); }).kind(), ErrorKind::kInvalidArgument);
  }
  EXPECT_EQ(error_of([&] { text_line_format()->open(local_file_system(), dir / "none"); }).kind(),
            ErrorKind::kNotFound);
}

TEST(TextLines, LongLinesComeInSmallBlocks) {
  const TempDirectory dir;
  const std::string line(300'000, 'x');
  std::string text;
  for (int i = 0; i < 10; ++i) text += line + "\n";
  local_file_system().write_atomically(dir / "t", text).value();
  const auto reader = text_line_format()->open(local_file_system(), dir / "t");
  Element rows;
  EXPECT_EQ(reader->read(1000, &rows), 4);
  EXPECT_EQ(read_all(*reader, 1000), std::vector<std::string>(6, line));
}

}  // namespace
}  // namespace muster::inline v0_1::data
