// CRC-32C (Castagnoli, RFC 3720 appendix B.4), and the masked form in which TFRecord stores it.
// Thread safety: pure functions.
#pragma once

#include <cstdint>

#include "muster/base/bytes.h"

namespace muster::inline v0_1 {

// The checksum of `bytes`; uses the processor's instruction where it has one.
uint32_t crc32c(Bytes bytes);
// The checksum of a + b, given that of a.
uint32_t extend_crc32c(uint32_t crc, Bytes bytes);
// The same by tables alone: what machines without the instruction run.
uint32_t extend_crc32c_portable(uint32_t crc, Bytes bytes);

// Stored checksums are rotated and offset, so that checksums of data that hold checksums stay good.
constexpr uint32_t mask_crc32c(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }
constexpr uint32_t unmask_crc32c(uint32_t masked) {
  const uint32_t rotated = masked - 0xa282ead8u;
  return (rotated >> 17) | (rotated << 15);
}
inline uint32_t masked_crc32c(Bytes bytes) { return mask_crc32c(crc32c(bytes)); }

}  // namespace muster::inline v0_1
