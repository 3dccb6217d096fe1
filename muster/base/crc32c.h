// CRC-32C (Castagnoli, RFC 3720 appendix B.4), and the masked form in which TFRecord stores it.
// Thread safety: pure functions.
#pragma once

#include <cstdint>

#include "muster/base/bytes.h"
#include "muster/base/export.h"

namespace muster::inline v0_1 {

// Returns the checksum of `bytes`. It uses the processor's instruction if there is one.
MUSTER_PART_EXPORT uint32_t crc32c(Bytes bytes);
// Given the checksum of some bytes, returns that of these bytes followed by `bytes`.
MUSTER_PART_EXPORT uint32_t extend_crc32c(uint32_t crc, Bytes bytes);
// Given the checksums of two texts, and how many bytes the second has, returns that of the first
// followed by the second.
MUSTER_PART_EXPORT uint32_t joined_crc32c(uint32_t first, uint32_t second, uint64_t second_bytes);
// Does the same as extend_crc32c() by tables alone, as machines without the instruction do.
uint32_t extend_crc32c_portable(uint32_t crc, Bytes bytes);

// Returns the form in which a checksum is stored: rotated and offset, so that the checksum of data
// that contain checksums still detects errors.
constexpr uint32_t mask_crc32c(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }
constexpr uint32_t unmask_crc32c(uint32_t masked) {
  const uint32_t rotated = masked - 0xa282ead8u;
  return (rotated >> 17) | (rotated << 15);
}
inline uint32_t masked_crc32c(Bytes bytes) { return mask_crc32c(crc32c(bytes)); }

}  // namespace muster::inline v0_1
