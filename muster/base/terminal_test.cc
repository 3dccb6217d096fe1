#include "muster/base/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include "muster/base/internal/starts_itself.h"

namespace muster::inline v0_1 {
namespace {

TEST(TerminalTest, TextIsCutByCharactersNotBytes) {
  EXPECT_EQ(cut_to_columns("abc", 5), "abc");
  EXPECT_EQ(cut_to_columns("abc", 2), "ab");
  EXPECT_EQ(cut_to_columns("━━━", 2), "━━");
  EXPECT_EQ(cut_to_columns("a\x1b[2Jb\tc\x7f", 10), "a[2Jbc");
  EXPECT_EQ(cut_to_columns("abc", 0), "");
}

TEST(TerminalTest, KnowsATerminalFromAFile) {
  const int file = open("/dev/null", O_RDWR);
  EXPECT_FALSE(terminal_size(file).has_value());
  EXPECT_FALSE(takes_escapes(file));
  close(file);

  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  const winsize size{.ws_row = 5, .ws_col = 20, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(ioctl(terminal, TIOCSWINSZ, &size), 0);
  ASSERT_TRUE(terminal_size(terminal).has_value());
  EXPECT_EQ(terminal_size(terminal)->columns, 20);
  EXPECT_EQ(terminal_size(terminal)->rows, 5);
  setenv("TERM", "xterm", 1);
  unsetenv("NO_COLOR");
  EXPECT_TRUE(takes_color(terminal));
  setenv("NO_COLOR", "1", 1);
  EXPECT_TRUE(takes_escapes(terminal));
  EXPECT_FALSE(takes_color(terminal));
  setenv("TERM", "dumb", 1);
  EXPECT_FALSE(takes_escapes(terminal));
  unsetenv("NO_COLOR");
  close(terminal);
}

TEST(TerminalDeathTest, ClosedStreamsLeadNowhere) {
  // A death test starts this program again, which an emulator of another machine may not be able
  // to.
  if (!testing::starts_itself()) GTEST_SKIP() << testing::kNotStarted;
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        close(0);
        close(1);
        open_standard_streams();
        const int next = open("/dev/null", O_RDONLY);
        std::_Exit(next > 2 && write(1, "x", 1) == 1 ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace muster::inline v0_1
