#include "muster/formats/internal/find_bytes.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace muster::inline v0_1::formats::internal {
namespace {

#if defined(__x86_64__)

__attribute__((target("avx2"))) void find_avx2(const char* data, size_t words,
                                               std::array<char, 3> wanted, uint64_t* masks) {
  const __m256i a = _mm256_set1_epi8(wanted[0]);
  const __m256i b = _mm256_set1_epi8(wanted[1]);
  const __m256i c = _mm256_set1_epi8(wanted[2]);
  for (size_t k = 0; k < words; ++k) {
    uint64_t mask = 0;
    for (size_t half = 0; half < 2; ++half) {
      const __m256i bytes =
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data + 64 * k + 32 * half));
      const __m256i found =
          _mm256_or_si256(_mm256_or_si256(_mm256_cmpeq_epi8(bytes, a), _mm256_cmpeq_epi8(bytes, b)),
                          _mm256_cmpeq_epi8(bytes, c));
      mask |= uint64_t{static_cast<uint32_t>(_mm256_movemask_epi8(found))} << (32 * half);
    }
    masks[k] = mask;
  }
}

// Every x86-64 has SSE2.
void find_baseline(const char* data, size_t words, std::array<char, 3> wanted, uint64_t* masks) {
  const __m128i a = _mm_set1_epi8(wanted[0]);
  const __m128i b = _mm_set1_epi8(wanted[1]);
  const __m128i c = _mm_set1_epi8(wanted[2]);
  for (size_t k = 0; k < words; ++k) {
    uint64_t mask = 0;
    for (size_t quarter = 0; quarter < 4; ++quarter) {
      const __m128i bytes =
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(data + 64 * k + 16 * quarter));
      const __m128i found =
          _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(bytes, a), _mm_cmpeq_epi8(bytes, b)),
                       _mm_cmpeq_epi8(bytes, c));
      mask |= uint64_t{static_cast<uint32_t>(_mm_movemask_epi8(found))} << (16 * quarter);
    }
    masks[k] = mask;
  }
}

#else

void find_baseline(const char* data, size_t words, std::array<char, 3> wanted, uint64_t* masks) {
  for (size_t k = 0; k < words; ++k) {
    uint64_t mask = 0;
    for (size_t i = 0; i < 64; ++i) {
      const char byte = data[64 * k + i];
      const bool found = byte == wanted[0] || byte == wanted[1] || byte == wanted[2];
      mask |= uint64_t{found} << i;
    }
    masks[k] = mask;
  }
}

#endif

using Find = void (*)(const char*, size_t, std::array<char, 3>, uint64_t*);

Find best() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return find_avx2;
#endif
  return find_baseline;
}

}  // namespace

void find_bytes(const char* data, size_t words, std::array<char, 3> wanted, uint64_t* masks) {
  static const Find find = best();
  find(data, words, wanted, masks);
}

}  // namespace muster::inline v0_1::formats::internal
