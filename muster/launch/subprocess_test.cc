#include "muster/launch/subprocess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"

namespace muster::inline v0_1::launch {
namespace {

using testing::ElementsAre;
using namespace std::chrono_literals;

TEST(Subprocess, KeepsBothStreamsAndTheEnd) {
  const CompletedProcess ran = run_to_end(
      {"/bin/sh", "-c", "head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2; exit 7"}, 30s);
  EXPECT_EQ(ran.status.code, 7);
  EXPECT_EQ(ran.out.size(), 300000u);
  EXPECT_EQ(ran.err.size(), 300000u);
  EXPECT_FALSE(ran.timed_out);
  EXPECT_EQ(run_to_end({"sh", "-c", "kill -9 $$"}, 30s).status.signal, SIGKILL);
  EXPECT_THROW(run_to_end({"/nowhere/at/all"}, 30s), Error);
}

TEST(Subprocess, EndsAtTheDeadline) {
  for (const char* script : {"echo early; exec sleep 60", "exec >&- 2>&-; exec sleep 60"}) {
    const CompletedProcess ran = run_to_end({"/bin/sh", "-c", script}, 300ms);
    EXPECT_TRUE(ran.timed_out);
    EXPECT_EQ(ran.status.signal, SIGKILL);
  }
}

// The program ends when the notice was given.
TEST(Subprocess, ASlowOneIsReportedOnce) {
  const TempDirectory directory;
  const std::string told = directory / "told";
  int times = 0;
  const auto tell = [&] {
    ++times;
    local_file_system().write_atomically(told, std::string_view()).value();
  };
  const CompletedProcess ran =
      run_to_end({"/bin/sh", "-c", "until [ -e " + told + " ]; do sleep 0.01; done; sleep 0.1"},
                 30s, {.after = 20ms, .tell = tell});
  EXPECT_TRUE(ran.status.ok());
  EXPECT_EQ(times, 1);
  // Not for a program that has ended before, nor if the deadline comes first.
  run_to_end({"/bin/sh", "-c", "exit 0"}, 60s, {.after = 30s, .tell = tell});
  EXPECT_TRUE(run_to_end({"sleep", "60"}, 20ms, {.after = 30s, .tell = tell}).timed_out);
  EXPECT_EQ(times, 1);
}

// Returns whether no process has this number, waiting for its end.
bool goes(pid_t pid) {
  const auto end = std::chrono::steady_clock::now() + 30s;
  while (kill(pid, 0) == 0) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(2ms);  // the process that adopted it has to take its exit status
  }
  return errno == ESRCH;
}

// A wrapper's child would continue its work after the wrapper's time was over.
TEST(Subprocess, AtTheDeadlineWhatItStartedEndsToo) {
  // The second has ended itself, and its child holds the output.
  for (const char* script : {"sleep 600 & echo $!; wait", "sleep 600 & echo $!"}) {
    // A busy machine gives the shell more time to name its children.
    CompletedProcess ran;
    for (auto time = 500ms; time < 60s && ran.out.find('\n') == std::string::npos; time *= 4)
      ran = run_to_end({"/bin/sh", "-c", script}, time);
    EXPECT_TRUE(goes(std::stoi(ran.out))) << script;
  }
}

TEST(Subprocess, OneThatIsWatchedHasOurOutputsAndTheVariablesGiven) {
  ::testing::internal::CaptureStdout();
  const ExitStatus status =
      run_visibly({"/bin/sh", "-c", "echo seen $WORD; exit 7"}, {{"WORD", "here"}});
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "seen here\n");
  EXPECT_EQ(status.code, 7);
}

// Ctrl-C at the terminal ends the tool too, and this process as it did before.
TEST(Subprocess, SignalsOfThisProcessReachTheProgram) {
  const TempDirectory folder;
  const pid_t own = fork();
  ASSERT_GE(own, 0);
  if (own == 0) {
    signal(SIGINT, SIG_DFL);  // which a program that a shell started in the background ignores
    run_to_end({"/bin/sh", "-c",
                "trap 'echo told > " + (folder / "told") + "; exit' INT; echo > " +
                    (folder / "begun") + "; while :; do sleep 0.02; done"},
               60s);
    _exit(0);
  }
  const auto appears = [&](const char* name) {
    const auto end = std::chrono::steady_clock::now() + 30s;
    while (!local_file_system().exists(folder / name).value()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(2ms);  // the shell has to come so far
    }
    return true;
  };
  EXPECT_TRUE(appears("begun"));
  kill(own, SIGINT);
  int word = 0;
  EXPECT_EQ(waitpid(own, &word, 0), own);
  EXPECT_EQ(ExitStatus::from_wait_status(word).signal, SIGINT);
  EXPECT_TRUE(appears("told"));
}

TEST(Subprocess, HandsOnLineByLineUntilNobodyWantsThem) {
  std::vector<std::string> lines;
  const auto keep = [&](std::string_view line) { lines.emplace_back(line); };
  const CompletedProcess ran = run_by_lines(
      {"sh", "-c", "printf 'one\\n\\ntwo'; echo why >&2; exit 3"}, keep, [] { return false; });
  EXPECT_THAT(lines, ElementsAre("one", "", "two"));
  EXPECT_EQ(ran.status.code, 3);
  EXPECT_EQ(ran.err, "why\n");
  EXPECT_FALSE(ran.timed_out);

  lines.clear();
  const CompletedProcess stopped =
      run_by_lines({"sh", "-c", "echo first; exec sleep 60"}, keep, [&] { return !lines.empty(); });
  EXPECT_TRUE(stopped.timed_out);
  EXPECT_THAT(lines, ElementsAre("first"));
}

}  // namespace
}  // namespace muster::inline v0_1::launch
