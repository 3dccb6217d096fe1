// The other end of a connection. Pure functions; thread-safe.
#pragma once

#include <netinet/in.h>

#include <string>

namespace muster::inline v0_1::net {

// A numeric address and a port. IPv4 is IPv4 also if it comes in the clothes of IPv6.
struct Peer {
  std::string host{};  // without brackets and without the name of a link
  int port = 0;
  auto operator<=>(const Peer&) const = default;
};

// Not IP: an empty host.
Peer peer_of(const sockaddr_storage& address);

// The addresses that one host can easily take in any number count as one neighbourhood: the first
// 64 bits of an IPv6 address, a whole IPv4 address.
std::string neighbourhood(const Peer& peer);

}  // namespace muster::inline v0_1::net
