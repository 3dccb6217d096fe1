#include "muster/layers/noise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "muster/layers/initializers.h"
#include "muster/layers/internal/test_layers.h"
#include "muster/layers/step_context.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using testing::Fixture;
using testing::numbers;
using testing::TestStore;

double mean_of(const Tensor& x) { return x.to(at::kDouble).mean().item<double>(); }
double variance_of(const Tensor& x) { return x.to(at::kDouble).var().item<double>(); }

TEST(SpatialDropout, DropsWholeChannels) {
  struct Case {
    Layer layer;
    std::vector<int64_t> shape{};
  };
  for (const Case& c :
       {Case{SpatialDropout1D(0.4), {60, 5, 80}}, Case{SpatialDropout2D(0.4), {60, 3, 2, 80}},
        Case{SpatialDropout3D(0.4), {60, 2, 2, 2, 80}}}) {
    Fixture fixture;
    fixture.context.begin_step(true, 3, 0);
    const Tensor y = c.layer(torch::ones(c.shape), fixture.context).reshape({60, -1, 80});
    const Tensor first = y.select(1, 0);
    EXPECT_TRUE(y.eq(first.unsqueeze(1)).all().item<bool>()) << "a channel has one value";
    EXPECT_TRUE(
        torch::logical_or(first.eq(0), first.eq(static_cast<float>(1 / 0.6))).all().item<bool>());
    EXPECT_NEAR(mean_of(first.eq(0)), 0.4, 0.03);  // four standard deviations of 4800 draws
  }
}

TEST(AlphaDropout, KeepsMeanAndVarianceOfNormalNumbers) {
  Fixture fixture;
  fixture.context.begin_step(true, 0, 0);
  const Tensor x = initializers::random_normal(0, 1)({400, 500}, kFloat64, derive_key(4, {2}));
  for (const double rate : {0.1, 0.5}) {
    const Tensor y = AlphaDropout(rate)(x, fixture.context);
    EXPECT_NEAR(mean_of(y), 0, 0.012);
    EXPECT_NEAR(variance_of(y), 1, 0.02);
  }
  // A dropped value becomes a * -1.7580993 + b, the rest a * x + b.
  const double rate = 0.25, least = -1.7580993408473766;
  const double a = std::pow((1 - rate) * (1 + rate * least * least), -0.5);
  const double b = -a * least * rate;
  const Tensor y = AlphaDropout(rate)(x, fixture.context);
  const Tensor dropped = y.sub(a * least + b).abs().lt(1e-12);
  EXPECT_NEAR(mean_of(dropped), rate, 0.004);
  EXPECT_TRUE(torch::allclose(torch::where(dropped, a * x + b, y), a * x + b, 0, 1e-12));
}

TEST(Gaussian, NoiseHasItsMoments) {
  Fixture fixture;
  fixture.context.begin_step(true, 0, 0);
  const Tensor x = torch::full({300, 400}, 2.0);
  const Tensor added = GaussianNoise(0.3)(x, fixture.context) - x;
  EXPECT_NEAR(mean_of(added), 0, 0.004);
  EXPECT_NEAR(variance_of(added), 0.09, 0.002);
  const Tensor factors = GaussianDropout(0.2)(x, fixture.context) / x;
  EXPECT_NEAR(mean_of(factors), 1, 0.006);
  EXPECT_NEAR(variance_of(factors), 0.25, 0.005);
}

TEST(Noise, DoesNothingOutsideOfTrainingOrWithoutAnAmount) {
  Fixture fixture;
  const Tensor x = numbers({2, 3, 4});
  for (const bool training : {false, true}) {
    fixture.context.begin_step(training, 1, 0);
    const double amount = training ? 0 : 0.5;
    for (const Layer& layer : {SpatialDropout1D(amount), AlphaDropout(amount),
                               GaussianNoise(amount), GaussianDropout(amount)}) {
      EXPECT_TRUE(layer(x, fixture.context).is_same(x));
    }
  }
}

TEST(Noise, IsAFunctionOfSeedStepReplicaAndLayer) {
  const Tensor x = torch::ones({10, 8, 16});
  const std::vector<Layer (*)()> makers = {
      [] { return SpatialDropout1D(0.5); }, [] { return AlphaDropout(0.5); },
      [] { return GaussianNoise(0.5); }, [] { return GaussianDropout(0.5); }};
  for (const auto make : makers) {
    const auto drawn = [&](uint64_t seed, int64_t step, int64_t replica) {
      TestStore store;
      StepContext context(store, seed);
      const Layer layer = make();
      context.begin_step(true, 77, 0);  // an earlier step leaves no trace
      layer(x, context);
      context.begin_step(true, step, replica);
      return layer(x, context);
    };
    const Tensor base = drawn(1, 5, 0);
    EXPECT_TRUE(base.equal(drawn(1, 5, 0)));
    EXPECT_FALSE(base.equal(drawn(2, 5, 0)));
    EXPECT_FALSE(base.equal(drawn(1, 6, 0)));
    EXPECT_FALSE(base.equal(drawn(1, 5, 1)));
  }
}

TEST(Noise, RefusesWhatKerasRefuses) {
  EXPECT_EQ(message_of([] { SpatialDropout2D(1); }), "SpatialDropout2D: rate is 1");
  EXPECT_EQ(message_of([] { AlphaDropout(-0.1); }), "AlphaDropout: rate is -0.1");
  EXPECT_EQ(message_of([] { GaussianDropout(1.5); }), "GaussianDropout: rate is 1.5");
  EXPECT_EQ(message_of([] { GaussianNoise(-1); }), "GaussianNoise: stddev is -1");
  Fixture fixture;
  EXPECT_EQ(message_of([&] {
              SpatialDropout2D(0.5)(numbers({2, 3, 4}), fixture.context);
            }),
            "layer spatial_dropout2d: expected images [batch, height, width, channels], was given "
            "float64[2, 3, 4]");
}

}  // namespace
}  // namespace muster::inline v0_1
