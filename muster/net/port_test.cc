#include "muster/net/port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "muster/base/error.h"

namespace muster::inline v0_1::net {
namespace {

TEST(Port, SplitsAndJoinsAddresses) {
  EXPECT_EQ(split_address("worker-0.jobs:2222").host, "worker-0.jobs");
  EXPECT_EQ(split_address("worker-0.jobs:2222").port, 2222);
  EXPECT_EQ(split_address("[::1]:80").host, "::1");
  EXPECT_EQ(join_address("::1", 80), "[::1]:80");
  EXPECT_EQ(join_address("a", 1), "a:1");
}

TEST(Port, RefusesWhatIsNoAddressAndQuotesIt) {
  for (std::string bad :
       {"", "host", ":1", "host:", "host:x", "host:70000", "host:-1", "host:1x"}) {
    try {
      split_address(bad);
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
      EXPECT_THAT(error.message(), testing::HasSubstr("\"" + bad + "\""));
    }
  }
}

TEST(Port, SeesAListener) {
  int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(name);
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&name), size), 0);
  ASSERT_EQ(::listen(listener, 1), 0);
  ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&name), &size), 0);
  int port = ntohs(name.sin_port);
  for (std::string host : {"127.0.0.1", "localhost", "0.0.0.0"}) {
    try {
      check_port_is_free(host, port, "chief:0 at here", "move");
      ADD_FAILURE() << host;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
      EXPECT_THAT(error.message(), testing::HasSubstr("chief:0 at here"));
      EXPECT_EQ(error.hint(), "move");
    }
  }
  ::close(listener);
  EXPECT_NO_THROW(check_port_is_free("127.0.0.1", 0, "", ""));
}

TEST(Port, KnowsLoopback) {
  EXPECT_TRUE(is_loopback("localhost"));
  EXPECT_TRUE(is_loopback("127.0.1.1"));
  EXPECT_TRUE(is_loopback("::1"));
  EXPECT_FALSE(is_loopback("10.0.0.1"));
  EXPECT_FALSE(is_loopback("worker-0"));
}

}  // namespace
}  // namespace muster::inline v0_1::net
