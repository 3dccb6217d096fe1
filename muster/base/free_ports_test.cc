#include "muster/base/free_ports.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

namespace muster::inline v0_1 {
namespace {

TEST(FreePorts, AreDifferent) {
  std::set<int> ports;
  for (int i = 0; i < 20; ++i) {
    for (const int port : free_ports(20)) EXPECT_TRUE(ports.insert(port).second) << port;
  }
  EXPECT_GT(*ports.begin(), 0);
}

// However many a process asks for, as a preview of a large search does, it keeps few descriptors.
TEST(FreePorts, AreMoreThanAProcessMayHaveFiles) {
  for (size_t i = 0; i < 4 * kMostFreePortsKept; ++i) ASSERT_GT(free_port(), 0);
  size_t open = 0;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
    (void)file;
    ++open;
  }
  EXPECT_LT(open, kMostFreePortsKept + 100);
}

// Two processes that look at the same places get none twice, though neither listens yet.
TEST(FreePorts, AreNotThoseOfAnotherProcess) {
  constexpr int kPorts = 50;
  int ends[2] = {-1, -1};
  ASSERT_EQ(pipe(ends), 0);
  int gate[2] = {-1, -1};
  ASSERT_EQ(pipe(gate), 0);
  // It continues from the position of this process.
  const std::vector<int> before = free_ports(1);
  const pid_t other = fork();
  ASSERT_GE(other, 0);
  if (other == 0) {
    const std::vector<int> its = free_ports(kPorts);
    char end = 0;
    const bool told = write(ends[1], its.data(), its.size() * sizeof(int)) > 0 &&
                      close(gate[1]) == 0 && read(gate[0], &end, 1) == 0;  // until we have ours
    _exit(told ? 0 : 1);
  }
  int its[kPorts] = {};
  ASSERT_EQ(read(ends[0], its, sizeof its), static_cast<ssize_t>(sizeof its));
  for (const int port : free_ports(kPorts))
    EXPECT_EQ(std::count(its, its + kPorts, port), 0) << port;
  for (const int end : {gate[0], gate[1], ends[0], ends[1]}) close(end);
  int status = -1;
  ASSERT_EQ(waitpid(other, &status, 0), other);
  EXPECT_EQ(status, 0);
}

// No socket whose port the system chooses, at either end of a connection, gets one of these.
TEST(FreePorts, LieOutsideTheSystemsRange) {
  std::ifstream file("/proc/sys/net/ipv4/ip_local_port_range");
  int first = 0, last = 0;
  // If the system's range begins lower, too few ports remain outside of it.
  if (!(file >> first >> last) || first < 30000) {
    GTEST_SKIP() << "the system gives out ports from " << first
                 << " on, so that free_ports() has to take some of those";
  }
  for (const int port : free_ports(20)) EXPECT_LT(port, first);
}

}  // namespace
}  // namespace muster::inline v0_1
