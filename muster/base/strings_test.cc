#include "muster/base/strings.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace muster::inline v0_1 {
namespace {

TEST(Strings, ToLowerLeavesOtherBytes) {
  EXPECT_EQ(to_lower("Content-LENGTH: [Z@]"), "content-length: [z@]");
  EXPECT_EQ(to_lower("\xc3\x84"), "\xc3\x84");
}

TEST(Strings, SplitTrimJoin) {
  EXPECT_EQ(split("a,b,", ','), (std::vector<std::string>{"a", "b", ""}));
  EXPECT_EQ(split("", ','), (std::vector<std::string>{""}));
  EXPECT_EQ(trim(" \ta b\r\n"), "a b");
  EXPECT_EQ(trim(" \n"), "");
  EXPECT_EQ(join({"a", "b"}, ", "), "a, b");
  EXPECT_EQ(join_quoted({"a", "b"}), "'a', 'b'");
  EXPECT_EQ(join_quoted({}), "(none)");
  EXPECT_EQ(join_quoted({"a", "b", "c"}, 1), "'a' ... and 2 more");
  EXPECT_EQ(list_lines({"a", "b", "c"}, 1, "  "), "\n  a\n  ... and 2 more");
  EXPECT_EQ(list_lines({}, 1), "");
}

TEST(Strings, NumbersAreWholeOrNothing) {
  EXPECT_EQ(parse_int("-12"), -12);
  EXPECT_EQ(parse_int("9223372036854775807"), std::numeric_limits<int64_t>::max());
  for (const char* text : {"", " 1", "1x", "9223372036854775808", "+1", "1.0"}) {
    EXPECT_EQ(parse_int(text), std::nullopt) << text;
  }
  EXPECT_EQ(parse_double("1.5e-3"), 1.5e-3);
  EXPECT_EQ(parse_double("1.5s"), std::nullopt);
}

TEST(Strings, Utf8) {
  for (const char* good : {"", "abc", "é", "€", "\U0001f600", "\xf4\x8f\xbf\xbf", "\xed\x9f\xbf"}) {
    EXPECT_TRUE(is_utf8(good)) << good;
  }
  for (const char* bad :
       {"\x80", "a\xc3", "\xc0\xaf", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xe2\x82", "\xe2(\xa1"}) {
    EXPECT_FALSE(is_utf8(bad)) << hex_bytes(bytes_of(bad));
  }
}

TEST(Strings, ForPeople) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes((1ull << 20) - 1), "1.0 MiB");
  EXPECT_EQ(human_bytes(std::numeric_limits<uint64_t>::max()), "16.0 EiB");
  EXPECT_EQ(human_duration(0.25), "0.25 s");
  EXPECT_EQ(human_duration(9.999), "10.0 s");
  EXPECT_EQ(human_duration(59.99), "1 min 00 s");
  EXPECT_EQ(human_duration(245), "4 min 05 s");
  EXPECT_EQ(human_duration(7380), "2 h 03 min");
  EXPECT_EQ(human_duration(-1), "?");
  EXPECT_EQ(hex_bytes(bytes_of("\x1f\x8b")), "1f 8b");
}

}  // namespace
}  // namespace muster::inline v0_1
