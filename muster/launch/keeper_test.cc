// Nothing that a task has started outlives the run, whatever ends that.
#include "muster/launch/internal/keeper.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include "muster/launch/internal/supervise_testing.h"

namespace muster::inline v0_1::launch {
namespace {

using std::chrono::milliseconds;

// Children of a task: in its own group, in one of its own, and in a session of its own. Their
// numbers are in files.
constexpr const char* kStartsThree =
    "exec 2>/dev/null >/dev/null\n"
    "sleep 1000 & echo $! >in_group\n"
    "set -m; sleep 1000 & echo $! >own_group; set +m\n"
    "setsid sh -c 'echo $$ >own_session.new; mv own_session.new own_session; exec sleep 1000' &\n"
    "wait_for own_session; touch ready\n";

class KeeperTest : public SuperviseTest {
 protected:
  void expect_all_gone() {
    for (const char* name : {"in_group", "own_group", "own_session"})
      EXPECT_TRUE(gone(std::stoi(read(name)))) << name;
  }
};

TEST_F(KeeperTest, WhatATaskStartedEndsWhenWeAreKilled) {
  const pid_t launcher = fork();
  if (launcher == 0) {
    supervise_scripts({std::string(kStartsThree) + "exec sleep 1000"});
    _exit(0);
  }
  for (int i = 0; i < 3000 && !std::filesystem::exists(folder_ + "/ready"); ++i)
    std::this_thread::sleep_for(milliseconds(10));
  kill(launcher, SIGKILL);
  waitpid(launcher, nullptr, 0);
  expect_all_gone();
}

TEST_F(KeeperTest, ProcessesThatATaskLeftBehindEndWithTheRun) {
  EXPECT_EQ(supervise_scripts({kStartsThree}).exit_code, 0);
  expect_all_gone();
}

// It ends our processes, but not others that run at the same time.
TEST_F(KeeperTest, OthersContinue) {
  const pid_t other = fork();
  if (other == 0) {
    setsid();
    execl("/bin/sleep", "sleep", "1000", nullptr);
    _exit(1);
  }
  EXPECT_EQ(supervise_scripts({"exit 0"}).exit_code, 0);
  EXPECT_EQ(waitpid(other, nullptr, WNOHANG), 0);
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
}

}  // namespace
}  // namespace muster::inline v0_1::launch
