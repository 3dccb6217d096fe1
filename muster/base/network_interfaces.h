// The network interfaces of this machine. Thread-safe: pure functions of the system's state.
#pragma once

#include <string>
#include <vector>

namespace muster::inline v0_1 {

// An interface and its numeric addresses, without addresses that are valid on one link only.
struct NetworkInterface {
  std::string name{};
  std::vector<std::string> addresses{};  // IPv4 first
  bool loopback = false;
  bool up = false;
};

// Returns nothing when the system does not say.
std::vector<NetworkInterface> network_interfaces();

// The numeric addresses of a host name or number, in the system's order. Empty if there are none,
// with the reason in `why_not` if that is given. It may ask a name server, and so take seconds.
std::vector<std::string> addresses_of(const std::string& host, std::string* why_not = nullptr);

// The numeric address of this machine from which it reaches `host`: of the interface that the
// system's routes choose; nothing is sent. "", with the reason in `why_not` if that is given, for a
// name that has no address here and a host that no route leads to. It may ask a name server.
std::string own_address_towards(const std::string& host, std::string* why_not = nullptr);

// The host at which peers find this machine: `named`, if this machine has an address of it. If the
// name belongs to another machine or to a loopback alias, it is the address of the interface that
// leads to `peer`, unless that is loopback too. It may ask a name server.
std::string host_for_peers(const std::string& named, const std::string& peer);

// Whether `host` is a numeric address that an interface of this machine owns.
bool is_own_address(const std::string& host);

}  // namespace muster::inline v0_1
