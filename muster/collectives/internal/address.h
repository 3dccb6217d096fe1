// Which address of this machine the peers of a task can reach. No LibTorch here.
#pragma once

#include <string>

namespace muster::inline v0_1::internal {

// The numeric address, owned by an interface of this machine, for `host`: a name or number as the
// cluster description gives it for this task. A number that an interface owns is taken as it is,
// and a name is resolved. Names that lead to a loopback alias (Debian maps the host name to
// 127.0.1.1) or to an address no interface owns (network address translation) get the first running
// interface that is not loopback; a log line says so. Throws InvalidArgument for an empty host and
// NotFound for a name that cannot be resolved.
std::string local_address(const std::string& host);

}  // namespace muster::inline v0_1::internal
