// The other end of a connection. Pure functions; thread-safe.
#pragma once

#include <netinet/in.h>

#include <string>

namespace muster::inline v0_1::net {

// A numeric address and a port. IPv4 is IPv4 also where it comes in the clothes of IPv6.
struct Peer {
  std::string host{};  // without brackets and without the name of a link
  int port = 0;
  auto operator<=>(const Peer&) const = default;
};

// As the socket has it. Not IP: an empty host.
Peer peer_of(const sockaddr_storage& address);
// As gRPC has it: "ipv4:10.0.0.1:1234" or "ipv6:%5B::1%5D:1234". Something else: the whole text as
// the host.
Peer peer_of(const std::string& text);

// Those that one stranger can have as many of as it likes count as one: the first 64 bits of an
// IPv6 address, a whole IPv4 address.
std::string neighbourhood(const Peer& peer);

}  // namespace muster::inline v0_1::net
