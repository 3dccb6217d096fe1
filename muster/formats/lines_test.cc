#include "muster/formats/lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "muster/base/random.h"
#include "muster/formats/gzip.h"

namespace muster::inline v0_1::formats {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

LineReader line_reader(const std::string& content, uint64_t longest = kLongestLine) {
  return LineReader(InputStream::open(memory_reader(bytes_of(content), "x.txt")).value(), longest);
}

std::vector<std::string> rest_of(LineReader& reader) {
  std::vector<std::string> lines;
  std::string_view line;
  while (reader.next(&line).value()) lines.emplace_back(line);
  return lines;
}

std::vector<std::string> lines_of(const std::string& content) {
  LineReader reader = line_reader(content);
  return rest_of(reader);
}

TEST(Lines, EndWithEitherLineEndOrNone) {
  EXPECT_THAT(lines_of("a\nb\r\n\nc"), ElementsAre("a", "b", "", "c"));
  EXPECT_THAT(lines_of("a\n"), ElementsAre("a"));
  EXPECT_THAT(lines_of(""), ElementsAre());
  EXPECT_THAT(lines_of("\n\r\n"), ElementsAre("", ""));
  EXPECT_THAT(lines_of("a\rb\r"), ElementsAre("a\rb"));
}

TEST(Lines, LongOnesCrossTheBuffer) {
  std::vector<std::string> wanted;
  std::string content;
  Random random(derive_key(3, {}));
  for (int i = 0; i < 200; ++i) {
    wanted.emplace_back(random.uniform_below(i % 20 == 0 ? 900'000 : 300), 'a' + i % 26);
    content += wanted.back() + (i % 3 == 0 ? "\r\n" : "\n");
  }
  EXPECT_EQ(lines_of(content), wanted);
  EXPECT_EQ(lines_of(gzip(bytes_of(content), 1)), wanted);
}

TEST(Lines, EveryPositionLeadsBack) {
  for (const bool packed : {false, true}) {
    const std::string plain = "one\ntwo\r\n\nfour";
    const std::string content = packed ? gzip(bytes_of(plain)) : plain;
    const std::vector<std::string> all = lines_of(content);
    LineReader reader = line_reader(content);
    std::vector<uint64_t> places{reader.offset()};
    std::string_view line;
    while (reader.next(&line).value()) places.push_back(reader.offset());
    ASSERT_EQ(places.size(), all.size() + 1);
    for (size_t i = places.size(); i-- > 0;) {
      reader.seek(places[i]).value();
      EXPECT_EQ(reader.offset(), places[i]);
      EXPECT_EQ(rest_of(reader),
                std::vector<std::string>(all.begin() + static_cast<ptrdiff_t>(i), all.end()));
      if (i == all.size()) continue;
      reader.seek(places[i]).value();
      ASSERT_TRUE(reader.next(&line).value());
      EXPECT_EQ(reader.line_offset(), places[i]);
      EXPECT_EQ(reader.line_number().value(), i + 1);
      EXPECT_EQ(rest_of(reader).size(), all.size() - i - 1)
          << "asking for the number moves nothing";
      EXPECT_EQ(reader.line_number().value(), all.size());
    }
    EXPECT_EQ(reader.seek(2).error().kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(reader.seek(2).error().message(), HasSubstr("byte 2"));
    EXPECT_FALSE(reader.seek(1000).ok());
    EXPECT_FALSE(reader.seek(UINT64_MAX).ok());
  }
}

TEST(Lines, OneTooLongIsPassedOver) {
  const std::string content = "short\n" + std::string(2'000'000, 'x') + "\nlast\n";
  LineReader reader = line_reader(content, 500'000);
  std::string_view line;
  ASSERT_TRUE(reader.next(&line).value());
  const Error error = reader.next(&line).error();
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("x.txt:2"), HasSubstr("500000 bytes")));
  EXPECT_THAT(rest_of(reader), ElementsAre("last"));
  EXPECT_EQ(reader.line_number().value(), 3u);
}

TEST(Lines, ADamagedStreamEndsAfterItsError) {
  std::string content;
  Random random(derive_key(4, {}));
  for (int i = 0; i < 100'000; ++i) content += std::to_string(random.next_u32()) + "\n";
  const std::string packed = gzip(bytes_of(content));
  const std::string cut = packed.substr(0, packed.size() / 2);
  LineReader reader = line_reader(cut);
  std::string_view line;
  int good = 0;
  Result<bool> more = true;
  while ((more = reader.next(&line)).ok() && more.value()) ++good;
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.error().kind(), ErrorKind::kCorrupt);
  EXPECT_GT(good, 40'000);
  EXPECT_FALSE(reader.next(&line).value());
}

}  // namespace
}  // namespace muster::inline v0_1::formats
