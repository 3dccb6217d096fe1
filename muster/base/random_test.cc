#include "muster/base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <utility>
#include <vector>

namespace muster::inline v0_1 {
namespace {

// kat_vectors of the Random123 library, the lines "philox4x32 10": counter, key, result.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, DrawsTheBlocksOfItsKeyInOrder) {
  const RandomKey key{0x299f31d0a4093822u, 0x0370734413198a2eu};
  Random random(key, 0x85a308d3243f6a88u);
  for (const uint32_t word : {0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u})
    EXPECT_EQ(random.next_u32(), word);
  Random from_start(key), from_second(key, 1);
  for (int i = 0; i < 4; ++i) from_start.next_u32();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(from_start.next_u32(), from_second.next_u32());
}

TEST(RandomKey, DerivationComposesAndSeparates) {
  EXPECT_EQ(derive_key(7, {1, 2}), derive_key(7, {1}).derive(2));
  std::set<std::pair<uint64_t, uint64_t>> seen;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    seen.insert({derive_key(seed, {}).key, derive_key(seed, {}).stream});
    for (uint64_t a = 0; a < 20; ++a) {
      const RandomKey one = derive_key(seed, {a});
      seen.insert({one.key, one.stream});
      for (uint64_t b = 0; b < 20; ++b) {
        const RandomKey two = one.derive(b);
        seen.insert({two.key, two.stream});
      }
    }
  }
  EXPECT_EQ(seen.size(), 4u * (1 + 20 + 400));
  // A child key differs from all draws of its parent.
  const RandomKey parent = derive_key(3, {});
  Random drawn(parent);
  EXPECT_NE(parent.derive(0).key, drawn.next_u64());
  EXPECT_NE(id_of("dense"), id_of("dense_1"));
}

TEST(Random, UniformBelowIsUnbiased) {
  Random random(derive_key(42, {}));
  EXPECT_EQ(random.uniform_below(0), 0u);
  EXPECT_EQ(random.uniform_below(1), 0u);
  constexpr int kDraws = 60000, kSides = 6;
  std::vector<double> counts(kSides);
  for (int i = 0; i < kDraws; ++i) counts[random.uniform_below(kSides)] += 1;
  double chi_square = 0;
  for (const double count : counts)
    chi_square += std::pow(count - kDraws / kSides, 2) / (kDraws / kSides);
  EXPECT_LT(chi_square, 20.5);  // 5 degrees of freedom, p = 0.001
  // With n = 3 * 2^62 a draw without rejection would hit the lower half of each third twice as
  // often.
  const uint64_t n = uint64_t{3} << 62;
  int thirds = 0;
  for (int i = 0; i < 3000; ++i) thirds += random.uniform_below(n) % 3 == 0 ? 1 : 0;
  EXPECT_NEAR(thirds, 1000, 110);
}

TEST(Random, UniformAndNormalHaveTheirMoments) {
  Random random(derive_key(5, {id_of("moments")}));
  constexpr int kDraws = 40000;
  double sum = 0, normal_sum = 0, normal_squares = 0, normal_cubes = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double u = random.uniform();
    const float f = random.uniform_float();
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    ASSERT_GE(f, 0);
    ASSERT_LT(f, 1);
    sum += u;
    const double z = random.normal();
    normal_sum += z;
    normal_squares += z * z;
    normal_cubes += z * z * z;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.006);  // 4 standard errors
  EXPECT_NEAR(normal_sum / kDraws, 0, 0.02);
  EXPECT_NEAR(normal_squares / kDraws, 1, 0.03);
  EXPECT_NEAR(normal_cubes / kDraws, 0, 0.08);
}

}  // namespace
}  // namespace muster::inline v0_1
