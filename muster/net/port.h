// Addresses and ports of this machine, through plain sockets. Pure functions of the system's state;
// thread-safe.
#pragma once

#include <string>

namespace muster::inline v0_1::net {

// The two parts of an address.
struct HostPort {
  std::string host;  // without the brackets of IPv6
  int port = 0;
};

// "host:port" or "[v6]:port". Throws InvalidArgument quoting the address.
HostPort split_address(const std::string& address);
// The inverse of split_address(): brackets around an IPv6 host.
std::string join_address(const std::string& host, int port);

// localhost, 127.x.y.z, ::1
bool is_loopback(const std::string& host);

// Throws Unavailable, naming `shown_as` and giving `hint`, when `host` (a numeric address or
// localhost) and `port` cannot be listened on. Port 0 is always free.
void check_port_is_free(const std::string& host, int port, const std::string& shown_as,
                        const std::string& hint);

}  // namespace muster::inline v0_1::net
