// Hashes of bytes that are the same on every machine and in every version, so that the weights
// learned for a bucket stay valid. They equal TensorFlow's string_to_hash_bucket_fast and
// string_to_hash_bucket_strong. Thread safety: pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "muster/base/export.h"

namespace muster::inline v0_1 {

// FarmHash's Fingerprint64 (Pike, 2014), by the library. It is quick. It has no key, so an attacker
// can make texts that fall into one bucket.
MUSTER_PART_EXPORT uint64_t fingerprint64(std::string_view bytes);

// Two numbers that choose one of the functions of siphash64().
using SipHashKey = std::array<uint64_t, 2>;

// SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012). Without the key
// nobody can make texts that fall into one bucket.
MUSTER_PART_EXPORT uint64_t siphash64(const SipHashKey& key, std::string_view bytes);

}  // namespace muster::inline v0_1
