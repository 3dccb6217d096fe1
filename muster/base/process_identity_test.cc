#include "muster/base/process_identity.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace muster::inline v0_1 {
namespace {

TEST(ProcessIdentityTest, AProcessHasEndedWhenItsParentKnows) {
  EXPECT_FALSE(has_ended(own_process()));
  ProcessIdentity child = own_process();
  child.process = fork();
  if (child.process == 0) _exit(0);
  ASSERT_GT(child.process, 0);
  ASSERT_EQ(waitpid(static_cast<pid_t>(child.process), nullptr, 0), child.process);
  EXPECT_TRUE(has_ended(child));
  // The same number in another space, or in an unknown one, says nothing.
  for (const char* space : {"another", ""})
    EXPECT_FALSE(has_ended({.space = space, .process = child.process})) << space;
  EXPECT_FALSE(has_ended({.space = child.space, .process = 0}));
}

}  // namespace
}  // namespace muster::inline v0_1
