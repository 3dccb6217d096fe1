// Secrets, and what proves that one knows them. Pure functions but random_secret(); thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "muster/base/export.h"

namespace muster::inline v0_1 {

// 64 hexadecimal digits from the system's random numbers. Throws Unavailable.
std::string random_secret();

// HMAC-SHA-256 (RFC 2104) of `message` under `secret`: 32 bytes, which only those can make who know
// the secret, and from which it cannot be learned.
MUSTER_PART_EXPORT std::string proof_of(std::string_view secret, std::string_view message);

// Whether both are the same. The time it takes tells nothing of where they differ.
bool same_secret(std::string_view a, std::string_view b);

}  // namespace muster::inline v0_1
