#include "muster/base/free_ports.h"

#include <gtest/gtest.h>

#include <set>

namespace muster::inline v0_1 {
namespace {

TEST(FreePorts, AreDifferent) {
  const std::vector<int> ports = free_ports(20);
  EXPECT_EQ(std::set<int>(ports.begin(), ports.end()).size(), 20u);
  for (const int port : ports) EXPECT_GT(port, 0);
}

}  // namespace
}  // namespace muster::inline v0_1
