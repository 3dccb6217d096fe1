// Which host a process is on, and words that only those know who were told. No LibTorch here.
// Thread safety: pure functions.
#pragma once

#include <string>

namespace muster::inline v0_1::internal {

// The same in all processes of this host that can reach each other's Unix sockets, until the host
// restarts. A container with a network of its own counts as another host. Throws Unavailable.
std::string host_identity();

// 32 random hexadecimal digits. Throws Unavailable.
std::string random_token();

}  // namespace muster::inline v0_1::internal
