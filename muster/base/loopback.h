// The address by which processes of one machine find each other. Thread-safe.
#pragma once

#include <string>

namespace muster::inline v0_1 {

// "127.0.0.1"; "::1" if the loopback interface has that address alone.
std::string loopback_host();
// The same in front of a port: "127.0.0.1:2222", "[::1]:2222".
std::string loopback_address(int port);

}  // namespace muster::inline v0_1
