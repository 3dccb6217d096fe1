// Finds TCP ports that no process uses. Thread-safe.
#pragma once

#include <cstddef>
#include <vector>

namespace muster::inline v0_1 {

// Below the limit of 1,024 descriptors that many systems set for a process.
inline constexpr size_t kMostFreePortsKept = 512;

// Returns `count` different TCP ports of the loopback interface on which no process listens now.
// While this process lives no other call returns the last kMostFreePortsKept of them, here or in
// another process, and they lie outside the range from which the system chooses a port for port 0,
// if enough ports remain. Another process that binds one by its number may still take it before you
// do. Keeps a file descriptor open for each of them. Throws Unavailable when the system has none.
std::vector<int> free_ports(int count);
// Returns one such port.
int free_port();

}  // namespace muster::inline v0_1
