#include "muster/layers/initializers.h"

#include <gtest/gtest.h>

#include <cmath>

#include "muster/layers/internal/test_layers.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

TEST(Initializers, HaveTheMomentsAndBoundsOfKeras) {
  const RandomKey key = derive_key(3, {1});
  const Shape shape{3, 3, 40, 60};  // fans 360 and 540
  struct Case {
    Initializer initializer;
    double variance, bound;
  };
  for (const auto dtype : {kFloat32, kFloat64}) {
    for (const Case& c : {Case{initializers::glorot_uniform(), 2.0 / 900, std::sqrt(6.0 / 900)},
                          Case{initializers::he_uniform(), 2.0 / 360, std::sqrt(6.0 / 360)},
                          Case{initializers::he_normal(), 2.0 / 360,
                               2 * std::sqrt(2.0 / 360) / 0.87962566103423978},
                          Case{initializers::glorot_normal(), 2.0 / 900,
                               2 * std::sqrt(2.0 / 900) / 0.87962566103423978},
                          Case{initializers::random_normal(0, 0.5), 0.25, 10},
                          Case{initializers::random_uniform(-0.3, 0.3), 0.03, 0.3}}) {
      const Tensor values = c.initializer(shape, dtype, key).to(at::kDouble);
      EXPECT_EQ(values.sizes(), shape);
      EXPECT_NEAR(values.mean().item<double>() / std::sqrt(c.variance), 0, 0.02);
      EXPECT_NEAR(values.var().item<double>() / c.variance, 1, 0.03);
      EXPECT_LE(values.abs().max().item<double>(), c.bound * (1 + 1e-6));
    }
  }
  EXPECT_TRUE(initializers::zeros()({2, 2}, kFloat32, key).eq(0).all().item<bool>());
  EXPECT_TRUE(initializers::ones()({2, 2}, kFloat64, key).eq(1).all().item<bool>());
  EXPECT_TRUE(initializers::constant(2.5)({2}, kFloat64, key).eq(2.5).all().item<bool>());
}

TEST(Initializers, DependOnTheKeyAlone) {
  const auto draw = [](uint64_t seed, const char* name) {
    return initializers::glorot_uniform()({7, 5}, kFloat32, derive_key(seed, {id_of(name)}));
  };
  EXPECT_TRUE(torch::equal(draw(1, "a"), draw(1, "a")));
  EXPECT_FALSE(torch::equal(draw(1, "a"), draw(1, "b")));
  EXPECT_FALSE(torch::equal(draw(1, "a"), draw(2, "a")));
  // The first value, by the definition: limit sqrt(6 / 12), uniform from the key's stream.
  const double limit = std::sqrt(0.5);
  EXPECT_FLOAT_EQ(
      draw(1, "a").flatten()[0].item<float>(),
      static_cast<float>(-limit + 2 * limit * Random(derive_key(1, {id_of("a")})).uniform()));
}

TEST(Initializers, DrawOnlyWhatCanTrain) {
  EXPECT_EQ(message_of([] { initializers::random_normal()({2}, kInt64, derive_key(1, {1})); }),
            "cannot draw random int64 values");
  EXPECT_EQ(initializers::zeros()({2}, kInt64, derive_key(1, {1})).scalar_type(), kInt64);
}

}  // namespace
}  // namespace muster::inline v0_1
