#include "muster/base/crc32c.h"

#include <array>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace muster::inline v0_1 {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78u;  // reflected

// kTables[k][b]: the checksum register after byte b and k zero bytes ("slicing by 8").
constexpr auto kTables = [] {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      tables[k][byte] = (tables[k - 1][byte] >> 8) ^ tables[0][tables[k - 1][byte] & 0xff];
    }
  }
  return tables;
}();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t extend_hardware(uint32_t crc, Bytes bytes) {
  uint64_t state = ~crc;
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8)
    state = _mm_crc32_u64(state, load_little_endian<uint64_t>(at));
  auto tail = static_cast<uint32_t>(state);
  for (; left > 0; --left, ++at) tail = _mm_crc32_u8(tail, static_cast<uint8_t>(*at));
  return ~tail;
}
#endif

}  // namespace

uint32_t extend_crc32c_portable(uint32_t crc, Bytes bytes) {
  uint32_t state = ~crc;
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8) {
    const uint64_t word = load_little_endian<uint64_t>(at) ^ state;
    state = 0;
    for (size_t k = 0; k < 8; ++k) state ^= kTables[7 - k][(word >> (8 * k)) & 0xff];
  }
  for (; left > 0; --left, ++at) {
    state = (state >> 8) ^ kTables[0][(state ^ static_cast<uint32_t>(*at)) & 0xff];
  }
  return ~state;
}

uint32_t extend_crc32c(uint32_t crc, Bytes bytes) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return extend_hardware(crc, bytes);
#endif
  return extend_crc32c_portable(crc, bytes);
}

uint32_t crc32c(Bytes bytes) { return extend_crc32c(0, bytes); }

}  // namespace muster::inline v0_1
