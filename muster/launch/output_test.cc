#include "muster/launch/internal/output.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "muster/base/file_descriptor.h"
#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/launch/exit_status.h"
#include "muster/launch/supervise.h"

namespace muster::inline v0_1::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(ExitStatus, ExplainsItself) {
  EXPECT_THAT(explain({.code = 138}), HasSubstr("exit code 138 (lost a peer"));
  EXPECT_THAT(explain({.code = 2}), HasSubstr("or a place that cannot be written to"));
  EXPECT_THAT(explain({.signal = SIGKILL}), HasSubstr("killed by SIGKILL (kill -9"));
  EXPECT_EQ(explain({.code = 77}), "exit code 77");
  EXPECT_EQ(ExitStatus{.signal = SIGKILL}.shell_code(), 137);
  EXPECT_EQ(ExitStatus{.code = 2}.shell_code(), 2);
}

std::vector<std::string> split(const std::vector<std::string>& pieces) {
  internal::LineSplitter splitter;
  std::vector<std::string> lines;
  const auto emit = [&](std::string_view text, bool passing) {
    lines.push_back((passing ? "~" : "") + std::string(text));
  };
  for (const std::string& piece : pieces) splitter.append(piece, emit);
  splitter.finish(emit);
  return lines;
}

TEST(LineSplitter, CutsAtNewlinesWhereverBytesBreak) {
  EXPECT_THAT(split({"a\nb", "c\n", "\n", "end"}), ElementsAre("a", "bc", "", "end"));
  EXPECT_THAT(split({"a\r\nb\r", "\n"}), ElementsAre("~a", "a", "~b", "b"));
}

TEST(LineSplitter, KeepsOnlyTheLastOfPassingLines) {
  EXPECT_THAT(split({"10%\r20%\r30%\ndone\n"}), ElementsAre("~10%", "~20%", "30%", "done"));
  EXPECT_THAT(split({"10%\r20%\r"}), ElementsAre("~10%", "~20%", "20%"));
  EXPECT_THAT(split({"10%\r \r"}), ElementsAre("~10%", "~"));  // taken away
}

// The bytes that a terminal gets.
std::string on_terminal(const std::function<void(internal::Output&)>& speak,
                        const winsize& size = {
                            .ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0}) {
  const int master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
  if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) return "no terminal";
  const int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
  ioctl(slave, TIOCSWINSZ, &size);
  setenv("TERM", "xterm", 1);
  {
    internal::Output output(slave, slave);
    speak(output);
    output.line(0, "end", 0, "");
    while (output.waiting_fd(0) >= 0) output.write_some(0);
  }
  std::string text;
  char bytes[256];
  pollfd wait{master, POLLIN, 0};
  while (poll(&wait, 1, 1000) > 0) {
    const ssize_t count = read(master, bytes, sizeof bytes);
    if (count <= 0) break;
    text.append(bytes, static_cast<std::size_t>(count));
    if (text.find("end]") != std::string::npos) break;
  }
  close(slave);
  close(master);
  return text;
}

void step_and_hello(internal::Output& output) {
  output.passing(1, "worker 0", 0, "step 1");
  output.line(0, "worker 1", 1, "hello");
}

TEST(Output, TerminalShowsPassingLinesAndColour) {
  unsetenv("NO_COLOR");
  EXPECT_THAT(on_terminal(step_and_hello), HasSubstr("\x1b[36m[worker 0]\x1b[0m step 1"
                                                     "\r\x1b[J\x1b[33m[worker 1]\x1b[0m hello\r\n"
                                                     "\x1b[36m[worker 0]\x1b[0m step 1"));
  setenv("NO_COLOR", "1", 1);
  EXPECT_THAT(on_terminal(step_and_hello),
              HasSubstr("[worker 0] step 1\r\x1b[J[worker 1] hello\r\n[worker 0] step 1"));
  unsetenv("NO_COLOR");
}

// A limit of the size of files stands for a full disk.
TEST(Output, ContinuesWhenAFullDiskHasSpaceAgainAndSaysWhatIsMissing) {
  const TempDirectory directory;
  const std::string path = directory / "log";
  const FileDescriptor file(::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit all{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &all), 0);
  internal::Output output(file.get(), file.get());
  const auto write_line = [&](const char* text) {
    output.line(0, "worker 0", 0, text);
    while (output.waiting_fd(0) >= 0) output.write_some(0);
  };
  write_line("first");
  const rlimit none{.rlim_cur = 1, .rlim_max = all.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  write_line("lost");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &all), 0);
  write_line("last");
  std::signal(SIGXFSZ, before);
  const std::string text = local_file_system().read_file(path).value();
  EXPECT_THAT(text, StartsWith("[worker 0] first\n"));
  EXPECT_THAT(text, Not(HasSubstr("lost")));
  EXPECT_THAT(text, EndsWith("\n[muster] some output is missing here: its file could not grow "
                             "(disk full, or ulimit -f)\n[worker 0] last\n"));
}

TEST(Output, EachTaskHasALineThatIsKeptUpToDate) {
  setenv("NO_COLOR", "1", 1);
  const std::string text = on_terminal([](internal::Output& output) {
    output.passing(1, "worker 0", 0, "step 1");
    output.passing(1, "worker 1", 1, "step 1");
    output.passing(1, "worker 0", 0, "step 2");
    output.passing(1, "worker 0", 0, "");
  });
  unsetenv("NO_COLOR");
  EXPECT_THAT(text,
              HasSubstr("[worker 0] step 1"
                        "\r\x1b[J[worker 0] step 1\r\r\n[worker 1] step 1"
                        "\x1b[1A\r\x1b[J[worker 0] step 2\r\r\n[worker 1] step 1"
                        "\x1b[1A\r\x1b[J[worker 1] step 1\r\x1b[J[end] \r\n[worker 1] step 1"));
}

// A line that wraps, or does not fit on the screen, could not be removed again.
TEST(Output, TheBlockFitsTheTerminal) {
  setenv("NO_COLOR", "1", 1);
  const std::string text = on_terminal(
      [](internal::Output& output) {
        for (const int task : {2, 0, 10, 1}) {
          output.passing(1, "worker " + std::to_string(task), task, "a long\tline of progress");
        }
      },
      {.ws_row = 4, .ws_col = 20, .ws_xpixel = 0, .ws_ypixel = 0});
  unsetenv("NO_COLOR");
  EXPECT_THAT(text, HasSubstr("[worker 0] a longli\r\r\n[worker 1] a longli\r\r\nand 2 more"));
}

}  // namespace
}  // namespace muster::inline v0_1::launch
