#include "muster/base/printable.h"

#include <gtest/gtest.h>

#include "muster/base/strings.h"

namespace muster::inline v0_1 {
namespace {

TEST(Printable, TextThatATerminalShowsStaysAsItIs) {
  for (const char* text : {"", "plain 'text' \\x", "é", "€ = 1", "\U0001f600", "\xc2\xa0"}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Printable, ControlBytesAndWhatIsNoUtf8AreWrittenAsNumbers) {
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\x1b[2J\r\n\t\x7f"), "\\x1b[2J\\x0d\\x0a\\x09\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m");
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");
  EXPECT_EQ(printable("\xe2\x82z€"), "\\xe2\\x82z€");
  EXPECT_EQ(printable("\xff\xc0\xaf"), "\\xff\\xc0\\xaf");
}

TEST(Printable, LinesStayLines) {
  EXPECT_EQ(printable_lines("one\n\ttwo\r\n\x1b[31m\xff€"), "one\n\ttwo\\x0d\n\\x1b[31m\\xff€");
}

TEST(Printable, ALongTextIsCutBetweenCharacters) {
  EXPECT_EQ(printable_beginning("abc", 3), "abc");
  EXPECT_EQ(printable_beginning("abcd", 3), "abc...");
  EXPECT_EQ(printable_beginning("ab€d", 4), "ab...");
  EXPECT_EQ(printable_beginning("ab€d", 5), "ab€...");
  EXPECT_EQ(printable_beginning("\x80\x80\x80", 2), "\\x80\\x80...");
  EXPECT_EQ(printable_beginning(std::string(1 << 20, '\n')).size(), 403u);
}

TEST(Printable, ListsInMessagesAreToo) {
  EXPECT_EQ(join_quoted({"a", "\x1b[0m"}), "'a', '\\x1b[0m'");
}

}  // namespace
}  // namespace muster::inline v0_1
