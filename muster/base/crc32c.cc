#include "muster/base/crc32c.h"

#include <algorithm>
#include <array>

#if defined(__x86_64__)
#include <immintrin.h>
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
// The instruction takes three cycles, and another can begin in each of them, so three streams side
// by side are three times as fast. A carry-less product with a power of x joins them.
constexpr size_t kStreams = 3;
constexpr size_t kMaxWords = 256;  // of one stream, 8 bytes each

// kPowers[w]: x^(64 w - 33) modulo the polynomial, reflected. The product of a register with it,
// put through the instruction, is the register after 8 w zero bytes.
constexpr auto kPowers = [] {
  std::array<uint32_t, (kStreams - 1) * kMaxWords + 1> powers{};
  uint32_t power = 1;  // x^31
  for (size_t words = 1; words < powers.size(); ++words) {
    powers[words] = power;
    for (int bit = 0; bit < 64; ++bit) {
      power = (power >> 1) ^ ((power & 1) != 0 ? kPolynomial : 0);
    }
  }
  return powers;
}();

#define MUSTER_CRC_TARGET __attribute__((target("sse4.2,pclmul")))

MUSTER_CRC_TARGET inline uint64_t after_zeros(uint64_t state, size_t words) {
  const __m128i product =
      _mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<int64_t>(state)),
                           _mm_cvtsi64_si128(static_cast<int64_t>(kPowers[words])), 0);
  return _mm_crc32_u64(0, static_cast<uint64_t>(_mm_cvtsi128_si64(product)));
}

MUSTER_CRC_TARGET uint32_t extend_hardware(uint32_t crc, Bytes bytes) {
  uint64_t state = ~crc;
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  constexpr size_t kShort = 192;  // below it joining costs more than it saves
  while (left >= kShort) {
    const size_t words = std::min(left / (8 * kStreams), kMaxWords);
    const std::byte* const second = at + 8 * words;
    const std::byte* const third = second + 8 * words;
    uint64_t state2 = 0;
    uint64_t state3 = 0;
    for (size_t i = 0; i < 8 * words; i += 8) {
      state = _mm_crc32_u64(state, load_little_endian<uint64_t>(at + i));
      state2 = _mm_crc32_u64(state2, load_little_endian<uint64_t>(second + i));
      state3 = _mm_crc32_u64(state3, load_little_endian<uint64_t>(third + i));
    }
    state = after_zeros(state, 2 * words) ^ after_zeros(state2, words) ^ state3;
    at = third + 8 * words;
    left -= 8 * kStreams * words;
  }
  for (; left >= 8; left -= 8, at += 8)
    state = _mm_crc32_u64(state, load_little_endian<uint64_t>(at));
  auto tail = static_cast<uint32_t>(state);
  for (; left > 0; --left, ++at) tail = _mm_crc32_u8(tail, static_cast<uint8_t>(*at));
  return ~tail;
}

#undef MUSTER_CRC_TARGET
#endif

// The product of two polynomials modulo that of the checksum, all of them reflected.
uint32_t product_of(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = 0x80000000u; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? kPolynomial : 0);
  }
  return product;
}

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
  static const bool has_instructions =
      __builtin_cpu_supports("sse4.2") != 0 && __builtin_cpu_supports("pclmul") != 0;
  if (has_instructions) return extend_hardware(crc, bytes);
#endif
  return extend_crc32c_portable(crc, bytes);
}

uint32_t joined_crc32c(uint32_t first, uint32_t second, uint64_t second_bytes) {
  // Zero bytes after a text multiply its register by powers of x, here by squaring.
  uint32_t power = 0x80000000u >> 8;  // x^8: one byte
  for (uint64_t left = second_bytes; left > 0; left >>= 1) {
    if ((left & 1) != 0) first = product_of(first, power);
    power = product_of(power, power);
  }
  return first ^ second;
}

uint32_t crc32c(Bytes bytes) { return extend_crc32c(0, bytes); }

}  // namespace muster::inline v0_1
