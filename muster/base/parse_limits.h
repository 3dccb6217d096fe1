// What reading may take in addition to the bytes that are read: one rule for everything that others
// have written (data files, images, checkpoints, configurations, what servers say). The author of a
// file chooses its bytes, but not the cost of reading them. Thread safety: constants and pure
// functions.
//
// - Memory: in addition to the input, a parser holds at most parse_memory_limit(bytes of the input)
// at its
//   peak, with what it returns.
// - What is packed is at most kMostUnpacked times as long unpacked, and takes unpack_memory_limit()
//   where it is unpacked as a whole; what is read as it is unpacked takes the memory of one record
//   of it. What a batch is filled up to is under the same bound (data/internal/padding_limit.h). An
//   image takes memory for its pixels, of which there is a limit (formats/image.h).
// - Time: every byte is looked at a bounded number of times, up to a logarithm.
//
// tests/fuzz holds every parser to it (tests/fuzz/meter.h); docs/security.md says it to users.
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

// The most memory, in bytes, for an input of so many.
constexpr uint64_t parse_memory_limit(uint64_t input_bytes) {
  return kParseFixedBytes + kParseBytesPerByte * input_bytes;
}

// The most memory, in bytes, for so many packed bytes that are unpacked as a whole: a buffer that
// grows is there twice for a moment, and what is made of its content once more.
constexpr uint64_t unpack_memory_limit(uint64_t packed_bytes) {
  return kParseFixedBytes + 4 * kMostUnpacked * packed_bytes;
}

}  // namespace muster::inline v0_1
