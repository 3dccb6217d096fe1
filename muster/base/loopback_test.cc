#include "muster/base/loopback.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "muster/base/free_ports.h"
#include "muster/base/internal/starts_itself.h"

namespace muster::inline v0_1 {
namespace {

TEST(Loopback, HasAnAddressInFrontOfEachPort) {
  const std::string host = loopback_host();
  EXPECT_TRUE(host == "127.0.0.1" || host == "::1") << host;
  EXPECT_EQ(loopback_address(7), host == "::1" ? "[::1]:7" : "127.0.0.1:7");
}

TEST(Loopback, IsThatOfIpv6WhereThisIsAlone) {
  constexpr int kNoNamespaces = 77;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
      _exit(kNoNamespaces);
    const char* only_ipv6 = "(ip link set lo up && ip addr del 127.0.0.1/8 dev lo) 2>/dev/null";
    if (std::system(only_ipv6) != 0) _exit(kNoNamespaces);
    // Another program, so that nothing is known of the address before.
    testing::become_itself("--gtest_also_run_disabled_tests",
                           "--gtest_filter=Loopback.DISABLED_InANamespaceOfIpv6");
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoNamespaces)
    GTEST_SKIP() << "this user may make no network namespace, or there is no command ip";
  if (WIFEXITED(status) && WEXITSTATUS(status) == testing::kForeignProgram)
    // An emulator of another machine may not be able to start this program again.
    GTEST_SKIP() << testing::kNotStarted;
  EXPECT_EQ(status, 0);
}

// Run by the test above, in such a namespace.
TEST(Loopback, DISABLED_InANamespaceOfIpv6) {
  EXPECT_EQ(loopback_host(), "::1");
  EXPECT_EQ(loopback_address(7), "[::1]:7");
  EXPECT_GT(free_port(), 0);
}

}  // namespace
}  // namespace muster::inline v0_1
