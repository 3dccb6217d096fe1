// Finds a few bytes in a block, many at a time. Thread safety: pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace muster::inline v0_1::formats::internal {

// Sets bit i of masks[k] when data[64 * k + i] is one of `wanted`, and clears it otherwise.
// REQUIRES: 64 * words readable bytes at `data`, and `words` writable masks.
void find_bytes(const char* data, size_t words, std::array<char, 3> wanted, uint64_t* masks);

}  // namespace muster::inline v0_1::formats::internal
