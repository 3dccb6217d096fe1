// Random numbers that are a pure function of a key, by Philox4x32-10 (Salmon, Moraes, Dror and
// Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011). Nothing draws from a global
// generator. Thread safety: keys and generators are small values; give each thread or each element
// its own.
//
//   RandomKey key = derive_key(seed, {id_of("dropout"), step, replica});
//   Random random(key);            // costs nothing: no state but the key and a counter
//   double u = random.uniform();
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "muster/base/export.h"

namespace muster::inline v0_1 {

// Four random words, the output of Philox for one counter.
using PhiloxBlock = std::array<uint32_t, 4>;

// The ten-round Philox4x32 function of a 128-bit counter and a 64-bit key.
constexpr PhiloxBlock philox4x32(PhiloxBlock counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    if (round > 0) {
      key[0] += 0x9e3779b9u;
      key[1] += 0xbb67ae85u;
    }
    const uint64_t left = uint64_t{0xd2511f53u} * counter[0];
    const uint64_t right = uint64_t{0xcd9e8d57u} * counter[2];
    counter = {
        static_cast<uint32_t>(right >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(right),
        static_cast<uint32_t>(left >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(left)};
  }
  return counter;
}

// Names one stream of random numbers: `key` is Philox's key, `stream` the upper half of its
// counter.
struct RandomKey {
  uint64_t key = 0;
  uint64_t stream = 0;

  // Returns the key of child `id`: (key', stream') = philox4x32({id, stream}, key xor
  // 0x6a09e667f3bcc908). The constant keeps the children different from the numbers of this key.
  constexpr RandomKey derive(uint64_t id) const;

  friend constexpr bool operator==(const RandomKey&, const RandomKey&) = default;
};

// Starts at {seed, 0} and applies derive() for each id in order, so derive_key(s, {a, b}) ==
// derive_key(s, {a}).derive(b).
constexpr RandomKey derive_key(uint64_t seed, std::initializer_list<uint64_t> ids) {
  RandomKey key{seed, 0};
  for (const uint64_t id : ids) key = key.derive(id);
  return key;
}

// Turns a name into an id, by 64-bit FNV-1a.
constexpr uint64_t id_of(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char letter : name)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3u;
  return hash;
}

// Draws the numbers of one key in order.
class MUSTER_EXPORT Random {
 public:
  // Begins in the stream of `key` at `position`, in blocks of four 32-bit words.
  explicit constexpr Random(RandomKey key, uint64_t position = 0)
      : key_(key), position_(position) {}

  // Returns the next 32 random bits.
  constexpr uint32_t next_u32() {
    if (used_ == 4) refill();
    return block_[used_++];
  }
  // Returns the next 64 random bits: two words, the low one first.
  constexpr uint64_t next_u64() {
    const uint64_t low = next_u32();
    return low | (uint64_t{next_u32()} << 32);
  }

  // Returns a number in [0, n), each equally likely (Lemire, "Fast random integer generation in an
  // interval", 2019); 0 for n = 0.
  constexpr uint64_t uniform_below(uint64_t n) {
    __extension__ using Wide = unsigned __int128;
    if (n == 0) return 0;
    Wide product = Wide{next_u64()} * n;
    if (static_cast<uint64_t>(product) < n) {
      const uint64_t threshold = (0 - n) % n;
      while (static_cast<uint64_t>(product) < threshold) product = Wide{next_u64()} * n;
    }
    return static_cast<uint64_t>(product >> 64);
  }

  // Returns a multiple of 2^-53 in [0, 1).
  constexpr double uniform() { return static_cast<double>(next_u64() >> 11) * 0x1p-53; }
  // Returns a multiple of 2^-24 in [0, 1); it takes one 32-bit word.
  constexpr float uniform_float() { return static_cast<float>(next_u32() >> 8) * 0x1p-24f; }
  // Returns a normal number of mean 0 and standard deviation 1 (Box-Muller; the second number of a
  // pair is kept for the next call).
  double normal();

 private:
  constexpr void refill() {
    block_ =
        philox4x32({static_cast<uint32_t>(position_), static_cast<uint32_t>(position_ >> 32),
                    static_cast<uint32_t>(key_.stream), static_cast<uint32_t>(key_.stream >> 32)},
                   {static_cast<uint32_t>(key_.key), static_cast<uint32_t>(key_.key >> 32)});
    ++position_;
    used_ = 0;
  }

  RandomKey key_;
  uint64_t position_;
  PhiloxBlock block_{};
  int used_ = 4;
  bool has_spare_ = false;
  double spare_ = 0;
};

constexpr RandomKey RandomKey::derive(uint64_t id) const {
  const uint64_t mixed = key ^ 0x6a09e667f3bcc908u;
  const PhiloxBlock block =
      philox4x32({static_cast<uint32_t>(id), static_cast<uint32_t>(id >> 32),
                  static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)},
                 {static_cast<uint32_t>(mixed), static_cast<uint32_t>(mixed >> 32)});
  return {block[0] | (uint64_t{block[1]} << 32), block[2] | (uint64_t{block[3]} << 32)};
}

}  // namespace muster::inline v0_1
