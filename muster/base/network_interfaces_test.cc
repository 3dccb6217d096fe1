#include "muster/base/network_interfaces.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace muster::inline v0_1 {
namespace {

TEST(NetworkInterfaces, KnowThisMachinesOwnAddresses) {
  const auto all = network_interfaces();
  EXPECT_TRUE(std::ranges::any_of(all, &NetworkInterface::loopback));
  EXPECT_TRUE(is_own_address("127.0.0.1"));
  EXPECT_FALSE(is_own_address("192.0.2.1"));  // kept for documents (RFC 5737)
  EXPECT_FALSE(is_own_address("localhost"));  // a name, no number
}

TEST(NetworkInterfaces, FindTheOwnAddressThatLeadsToAHost) {
  EXPECT_EQ(own_address_towards("127.0.0.1"), "127.0.0.1");
  for (const NetworkInterface& interface : network_interfaces()) {
    for (const std::string& address : interface.addresses)
      EXPECT_TRUE(is_own_address(own_address_towards(address))) << address;
  }
  std::string why_not;
  EXPECT_EQ(own_address_towards("no.such.host.invalid", &why_not), "");
  EXPECT_NE(why_not, "");
}

TEST(NetworkInterfaces, NameAHostAtWhichPeersFindThisMachine) {
  EXPECT_EQ(host_for_peers("localhost", "127.0.0.1"), "localhost");  // an address of this machine
  // Another machine's: the interface counts that leads to the peer, and never loopback.
  EXPECT_EQ(host_for_peers("192.0.2.1", "127.0.0.1"), "192.0.2.1");
  EXPECT_EQ(host_for_peers("no.such.host.invalid", "127.0.0.1"), "no.such.host.invalid");
  for (const NetworkInterface& interface : network_interfaces()) {
    if (interface.loopback || !interface.up) continue;
    for (const std::string& address : interface.addresses)
      EXPECT_EQ(host_for_peers("192.0.2.1", address), own_address_towards(address)) << address;
  }
}

}  // namespace
}  // namespace muster::inline v0_1
