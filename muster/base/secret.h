// Secrets, and proofs of knowing them. Pure functions except random_secret(); thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "muster/base/export.h"

namespace muster::inline v0_1 {

// 64 hexadecimal digits from the system's random numbers. Throws Unavailable.
std::string random_secret();

// HMAC-SHA-256 (RFC 2104) of `message` under `secret`: 32 bytes, which can only be computed with
// the secret, and from which the secret cannot be computed.
MUSTER_PART_EXPORT std::string proof_of(std::string_view secret, std::string_view message);

// Whether both are equal. The time it takes does not depend on where they differ.
bool same_secret(std::string_view a, std::string_view b);

}  // namespace muster::inline v0_1
