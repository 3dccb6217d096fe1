// Finds TCP ports that nobody uses. Thread-safe.
#pragma once

#include <vector>

namespace muster::inline v0_1 {

// Returns `count` different TCP ports of the loopback interface on which nobody listens now.
// Another process may take one before you do: be ready to ask again. Throws Unavailable when the
// system has none.
std::vector<int> free_ports(int count);
// Returns one such port.
int free_port();

}  // namespace muster::inline v0_1
