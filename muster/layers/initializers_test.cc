#include "muster/layers/initializers.h"

#include <gtest/gtest.h>

#include <cmath>

#include "muster/layers/dense.h"
#include "muster/layers/internal/test_layers.h"
#include "muster/layers/step_context.h"
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

// Fan of a convolution [3, 3, 40, 60]: 360 in, 540 out; of a vector [n]: n and n.
TEST(VarianceScaling, HasItsVarianceInAllModesAndDistributions) {
  const RandomKey key = derive_key(5, {1});
  using initializers::Distribution;
  using initializers::FanMode;
  struct Case {
    Shape shape{};
    FanMode mode;
    double fan{};
  };
  for (const Case& c :
       {Case{{3, 3, 40, 60}, FanMode::kFanIn, 360}, Case{{3, 3, 40, 60}, FanMode::kFanOut, 540},
        Case{{3, 3, 40, 60}, FanMode::kFanAvg, 450}, Case{{300, 80}, FanMode::kFanOut, 80},
        Case{{20000}, FanMode::kFanAvg, 20000}}) {
    for (const auto distribution : {Distribution::kTruncatedNormal, Distribution::kUniform,
                                    Distribution::kUntruncatedNormal}) {
      const Tensor values = initializers::variance_scaling(
          {.scale = 1.7, .mode = c.mode, .distribution = distribution})(c.shape, kFloat64, key);
      const double stddev = std::sqrt(1.7 / c.fan);
      EXPECT_NEAR(values.mean().item<double>() / stddev, 0, 0.03);
      EXPECT_NEAR(values.var().item<double>() / (stddev * stddev), 1, 0.04);
      const double largest = values.abs().max().item<double>() / stddev;
      if (distribution == Distribution::kUniform) {
        EXPECT_LE(largest, std::sqrt(3));
      }
      if (distribution == Distribution::kTruncatedNormal) {
        EXPECT_LE(largest, 2 / 0.8796256);
        EXPECT_GE(largest, 2.1);
      }
      // Among more than 20,000 normal numbers one is further away than three.
      if (distribution == Distribution::kUntruncatedNormal) {
        EXPECT_GE(largest, 3);
      }
    }
  }
  EXPECT_EQ(message_of([] { initializers::variance_scaling({.scale = 0}); }),
            "variance_scaling: scale is 0");
}

TEST(VarianceScaling, IsWhatTheNamedOnesAre) {
  const RandomKey key = derive_key(5, {2});
  using initializers::Distribution;
  using initializers::FanMode;
  const auto same = [&](const Initializer& named, initializers::VarianceScalingOptions options) {
    const Shape shape{2, 3, 4, 5};
    return named(shape, kFloat32, key)
        .equal(initializers::variance_scaling(options)(shape, kFloat32, key));
  };
  EXPECT_TRUE(same(initializers::lecun_normal(), {}));
  EXPECT_TRUE(same(initializers::lecun_uniform(), {.distribution = Distribution::kUniform}));
  EXPECT_TRUE(same(initializers::he_normal(), {.scale = 2}));
  EXPECT_TRUE(same(initializers::glorot_uniform(),
                   {.mode = FanMode::kFanAvg, .distribution = Distribution::kUniform}));
  // The bits follow the formulas: limits sqrt(6 / 24) and sqrt(3 / 24).
  const Random drawn(key);
  const double first = Random(drawn).uniform();
  const double he = std::sqrt(6.0 / 24), lecun = std::sqrt(3.0 / 24);
  const auto first_of = [&](const Initializer& initializer) {
    return initializer({2, 3, 4, 5}, kFloat64, key).view(-1)[0].item<double>();
  };
  EXPECT_EQ(first_of(initializers::he_uniform()), -he + 2 * he * first);
  EXPECT_EQ(first_of(initializers::lecun_uniform()), -lecun + 2 * lecun * first);
}

TEST(Orthogonal, RowsOrColumnsAreOrthonormal) {
  for (const Shape& shape : {Shape{30, 12}, Shape{12, 30}, Shape{20, 20}, Shape{3, 3, 4, 10}}) {
    for (const auto dtype : {kFloat32, kFloat64}) {
      const Tensor values =
          initializers::orthogonal(1.5)(shape, dtype, derive_key(9, {4})).to(kFloat64);
      ASSERT_EQ(values.sizes(), shape);
      const Tensor matrix = values.reshape({-1, shape.back()});
      const bool tall = matrix.size(0) >= matrix.size(1);
      const Tensor products = tall ? matrix.t().mm(matrix) : matrix.mm(matrix.t());
      const Tensor expected = torch::eye(products.size(0), kFloat64) * 1.5 * 1.5;
      EXPECT_LT((products - expected).abs().max().item<double>(), dtype == kFloat64 ? 1e-10 : 1e-6);
    }
  }
  // Column by column it is the QR decomposition whose R has a positive diagonal.
  const RandomKey key = derive_key(9, {5});
  const Tensor drawn = initializers::random_normal(0, 1)({6, 3}, kFloat64, key);
  const Tensor q = initializers::orthogonal()({6, 3}, kFloat64, key);
  const Tensor r = q.t().mm(drawn);
  EXPECT_LT(r.tril(-1).abs().max().item<double>(), 1e-12);
  EXPECT_GT(r.diag().min().item<double>(), 0);
  EXPECT_LT((q.mm(r) - drawn).abs().max().item<double>(), 1e-12);
  EXPECT_EQ(message_of([&] { initializers::orthogonal()({6}, kFloat64, key); }),
            "orthogonal: the shape is [6]");
  EXPECT_EQ(message_of([] { initializers::orthogonal(std::nan("")); }), "orthogonal: gain is nan");
}

TEST(Identity, IsAMatrixWithTheGainOnItsDiagonal) {
  const Tensor values = initializers::identity(2.5)({3, 4}, kFloat32, derive_key(1, {1}));
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t j = 0; j < 4; ++j) EXPECT_EQ(values[i][j].item<float>(), i == j ? 2.5f : 0.0f);
  }
  EXPECT_EQ(message_of([] {
              initializers::identity()({2, 2, 2}, kFloat32, derive_key(1, {1}));
            }),
            "identity: the shape is [2, 2, 2]");
}

TEST(Initializers, DrawOnlyWhatCanTrain) {
  EXPECT_EQ(message_of([] { initializers::random_normal()({2}, kInt64, derive_key(1, {1})); }),
            "cannot draw random int64 values");
  EXPECT_EQ(initializers::zeros()({2}, kInt64, derive_key(1, {1})).scalar_type(), kInt64);
}

TEST(Initializers, AConstantIsFinite) {
  EXPECT_EQ(message_of([] { initializers::constant(std::nan("")); }), "constant: value is nan");
  EXPECT_EQ(message_of([] { initializers::constant(-INFINITY); }), "constant: value is -inf");
}

TEST(Constant, GivesACopyOfATensor) {
  const Tensor value = torch::arange(6, kFloat32).view({2, 3});
  const Initializer initializer = initializers::constant(value.t());
  const Tensor given = initializer({3, 2}, kFloat64, {});
  EXPECT_TRUE(torch::equal(given, value.t().to(kFloat64)));
  EXPECT_TRUE(given.is_contiguous());
  initializers::constant(value)({2, 3}, kFloat32, {}).zero_();
  EXPECT_EQ(value.sum().item<float>(), 15) << "it is trained, and the value is not";
  testing::TestStore store;
  StepContext context(store, 1);
  EXPECT_EQ(message_of([&] {
              Dense(3, {.kernel_initializer = initializer, .name = "first"})(torch::zeros({1, 2}),
                                                                             context);
            }),
            "constant: value is float32[3, 2], and the shape [2, 3]; it is for the variable "
            "first/kernel");
  EXPECT_EQ(message_of([] { initializers::constant(Tensor()); }),
            "constant: value is an undefined tensor");
}

}  // namespace
}  // namespace muster::inline v0_1
