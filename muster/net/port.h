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

using cluster::is_loopback;
using cluster::join_address;  // the inverse

}  // namespace muster::inline v0_1::net
