#include "muster/launch/lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace muster::inline v0_1::launch {
namespace {

using testing::ElementsAre;

// Feeds `text` in pieces of `step` bytes.
std::vector<std::string> lines_of(const std::string& text, size_t step) {
  std::vector<std::string> lines;
  const Lines::Emit keep = [&](std::string_view line) { lines.emplace_back(line); };
  Lines cutter;
  for (size_t i = 0; i < text.size(); i += step)
    cutter.append(std::string_view(text).substr(i, step), keep);
  cutter.finish(keep);
  return lines;
}

TEST(LinesTest, AreTheSameHoweverTheBytesCome) {
  for (const size_t step : {1u, 2u, 3u, 100u})
    EXPECT_THAT(lines_of("one\n\ntwo\r50%\nrest", step),
                ElementsAre("one", "", "two\r50%", "rest"));
}

// A progress bar without a line end, and a file of bytes.
TEST(LinesTest, ALineThatNeverEndsComesInParts) {
  const std::string character = "\xe2\x82\xac";  // three bytes
  std::string text;
  while (text.size() < 5 * kLongestLine) text += character;
  for (const size_t step : {1000u, 1000000u}) {
    const auto lines = lines_of(text, step);
    std::string together;
    for (const std::string& line : lines) {
      EXPECT_LE(line.size(), kLongestLine);
      EXPECT_EQ(line.size() % 3, 0u);  // no character is cut
      together += line;
    }
    EXPECT_EQ(together, text);
    EXPECT_EQ(lines.size(), 6u);
  }
  // Bytes that are not text are passed on too.
  EXPECT_EQ(lines_of(std::string(kLongestLine + 1, '\x80'), 4096).size(), 2u);
  // A line of just that length is one.
  EXPECT_EQ(lines_of(std::string(kLongestLine, 'a') + "\nb", 4096).size(), 2u);
}

}  // namespace
}  // namespace muster::inline v0_1::launch
