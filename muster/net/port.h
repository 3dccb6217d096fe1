// Addresses of tasks as texts. Pure functions; thread-safe.
#pragma once

#include <string>

#include "muster/cluster/address.h"

namespace muster::inline v0_1::net {

// The two parts of an address.
struct HostPort {
  std::string host{};  // without the brackets of IPv6
  int port = 0;
};

// "host:port" or "[v6]:port". Throws InvalidArgument quoting the address.
HostPort split_address(const std::string& address);
// The inverse of split_address(): brackets around an IPv6 host.
std::string join_address(const std::string& host, int port);

using cluster::is_loopback;

}  // namespace muster::inline v0_1::net
