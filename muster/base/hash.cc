#include "muster/base/hash.h"

#include <farmhash.h>

#include <bit>

namespace muster::inline v0_1 {
namespace {

struct SipState {
  uint64_t a, b, c, d;

  void mix(int rounds) {
    for (; rounds > 0; --rounds) {
      a += b;
      c += d;
      b = std::rotl(b, 13) ^ a;
      d = std::rotl(d, 16) ^ c;
      a = std::rotl(a, 32);
      c += b;
      a += d;
      b = std::rotl(b, 17) ^ c;
      d = std::rotl(d, 21) ^ a;
      c = std::rotl(c, 32);
    }
  }

  void absorb(uint64_t word) {
    d ^= word;
    mix(2);
    a ^= word;
  }
};

// Up to eight bytes as a number, the first one the lowest.
uint64_t word_of(std::string_view bytes) {
  uint64_t word = 0;
  for (size_t i = 0; i < bytes.size(); ++i)
    word |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return word;
}

}  // namespace

uint64_t fingerprint64(std::string_view bytes) {
  return util::Fingerprint64(bytes.data(), bytes.size());
}

// OpenSSL has it too, but makes objects for each call, which would cost more than a short text.
uint64_t siphash64(const SipHashKey& key, std::string_view bytes) {
  // The constants spell "somepseudorandomlygeneratedbytes".
  SipState state{key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du,
                 key[0] ^ 0x6c7967656e657261u, key[1] ^ 0x7465646279746573u};
  const uint64_t size = bytes.size();
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) state.absorb(word_of(bytes.substr(0, 8)));
  state.absorb(word_of(bytes) | size << 56);
  state.c ^= 0xff;
  state.mix(4);
  return state.a ^ state.b ^ state.c ^ state.d;
}

}  // namespace muster::inline v0_1
