// Addresses of TF_CONFIG as texts. Pure functions; thread-safe.
#pragma once

#include <string>

namespace muster::inline v0_1::cluster {

// The host of "host:port", without the brackets of IPv6: "::1" of "[::1]:2222".
std::string host_of(const std::string& address);
// "host:port", with brackets around a number of IPv6.
std::string join_address(const std::string& host, int port);

// Whether a host can be reached from its own machine alone: localhost, a number 127.x.y.z, ::1.
bool is_loopback(const std::string& host);

}  // namespace muster::inline v0_1::cluster
