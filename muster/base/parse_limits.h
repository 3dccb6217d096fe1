// Limits for the memory and time of parsers: one rule for all foreign input (data files, images,
// checkpoints, configurations, answers of servers). The author of a file chooses its bytes, but not
// the cost of reading them. Thread safety: constants and pure functions.
//
// - Memory: in addition to the input, a parser holds at most parse_memory_limit(bytes of the input)
//   at its peak, with what it returns.
// - Packed data is at most kMostUnpacked times as long unpacked, and takes unpack_memory_limit() if
//   it is unpacked as a whole; data that is read as it is unpacked takes the memory of one record
//   of it. The padding of a batch has the same bound (data/internal/padding_limit.h). An image
//   takes memory for its pixels, of which there is a limit (formats/image.h).
// - Time: every byte is looked at a bounded number of times, up to a logarithm.
//
// tests/fuzz holds every parser to it (tests/fuzz/meter.h); docs/security.md documents it for
// users.
#pragma once

#include <cstdint>

namespace muster::inline v0_1 {

// Buffers and tables, however short the input is, in bytes.
inline constexpr uint64_t kParseFixedBytes = uint64_t{1} << 20;
// For each byte of the input: nothing is written in fewer letters than an element of a list ("1,"),
// and takes more memory than a text, a node of a tree, or a list of one.
inline constexpr uint64_t kParseBytesPerByte = 48;
// Deflate packs at most 258 bytes into two bits.
inline constexpr uint64_t kMostUnpacked = 1032;

// The most memory, in bytes, for an input of `input_bytes`.
constexpr uint64_t parse_memory_limit(uint64_t input_bytes) {
  return kParseFixedBytes + kParseBytesPerByte * input_bytes;
}

// The most memory, in bytes, for packed bytes that are unpacked as a whole: a growing buffer exists
// twice for a moment, and the result of parsing takes as much again.
constexpr uint64_t unpack_memory_limit(uint64_t packed_bytes) {
  return kParseFixedBytes + 4 * kMostUnpacked * packed_bytes;
}

}  // namespace muster::inline v0_1
