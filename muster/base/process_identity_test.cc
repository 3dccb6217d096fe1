#include "muster/base/process_identity.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>

#include "muster/base/await.h"

namespace muster::inline v0_1 {
namespace {

TEST(ProcessIdentityTest, AProcessHasEndedWhenItsParentKnowsAndBefore) {
  EXPECT_FALSE(has_ended(own_process()));
  ProcessIdentity child = own_process();
  child.process = fork();
  if (child.process == 0) _exit(0);
  ASSERT_GT(child.process, 0);
  siginfo_t how{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child.process), &how, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(has_ended(child));
  ASSERT_EQ(waitpid(static_cast<pid_t>(child.process), nullptr, 0), child.process);
  EXPECT_TRUE(has_ended(child));
  // The same number in another space, or in an unknown one, says nothing.
  for (const char* space : {"another", ""})
    EXPECT_FALSE(has_ended({.space = space, .process = child.process})) << space;
  EXPECT_FALSE(has_ended({.space = child.space, .process = 0}));
}

TEST(ProcessIdentityTest, AProcessWhoseFirstThreadHasEndedLives) {
  int alive[2];
  ASSERT_EQ(pipe(alive), 0);
  ProcessIdentity child = own_process();
  child.process = fork();
  if (child.process == 0) {
    std::thread([from = alive[0], to = alive[1]] {
      char byte = 0;
      close(to);
      (void)!read(from, &byte, 1);
      _exit(0);
    }).detach();
    ::syscall(SYS_exit, 0);  // this thread alone
  }
  ASSERT_GT(child.process, 0);
  close(alive[0]);
  const std::string stat = "/proc/" + std::to_string(child.process) + "/stat";
  const auto first_thread_ended = [&] {
    std::string text;
    std::getline(std::ifstream(stat) >> std::ws, text);
    return text.find(") Z ") != std::string::npos;
  };
  ASSERT_TRUE(comes_true(first_thread_ended));
  EXPECT_FALSE(has_ended(child));
  close(alive[1]);
  ASSERT_EQ(waitpid(static_cast<pid_t>(child.process), nullptr, 0), child.process);
}

}  // namespace
}  // namespace muster::inline v0_1
