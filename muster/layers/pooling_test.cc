#include "muster/layers/pooling.h"

#include <gtest/gtest.h>

#include <array>

#include "muster/layers/internal/test_layers.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using testing::Fixture;
using testing::numbers;

struct Pool {
  std::array<int64_t, 3> sizes{1, 1, 1};
  std::array<int64_t, 3> strides{1, 1, 1};
  Padding padding = Padding::kValid;

  int64_t outputs(int64_t axis, int64_t size) const {
    return padding == Padding::kValid ? (size - sizes[axis]) / strides[axis] + 1
                                      : (size + strides[axis] - 1) / strides[axis];
  }
  // Where the window of an output begins; below 0 in the padding.
  int64_t begin(int64_t axis, int64_t size, int64_t output) const {
    if (padding == Padding::kValid) return output * strides[axis];
    const int64_t needed = (outputs(axis, size) - 1) * strides[axis] + sizes[axis];
    return output * strides[axis] - std::max<int64_t>(needed - size, 0) / 2;
  }
};

// Pools volumes [batch, depth, height, width, channels] in plain loops.
Tensor plain_pool(const Tensor& x, const Pool& pool, bool largest) {
  Tensor y = torch::empty({x.size(0), pool.outputs(0, x.size(1)), pool.outputs(1, x.size(2)),
                           pool.outputs(2, x.size(3)), x.size(4)},
                          at::kDouble);
  const auto in = x.accessor<double, 5>();
  auto out = y.accessor<double, 5>();
  for (int64_t n = 0; n < y.size(0); ++n)
    for (int64_t i = 0; i < y.size(1); ++i)
      for (int64_t j = 0; j < y.size(2); ++j)
        for (int64_t k = 0; k < y.size(3); ++k)
          for (int64_t c = 0; c < y.size(4); ++c) {
            double best = -1e300, sum = 0;
            int count = 0;
            for (int64_t a = 0; a < pool.sizes[0]; ++a)
              for (int64_t b = 0; b < pool.sizes[1]; ++b)
                for (int64_t e = 0; e < pool.sizes[2]; ++e) {
                  const int64_t d = pool.begin(0, x.size(1), i) + a;
                  const int64_t h = pool.begin(1, x.size(2), j) + b;
                  const int64_t w = pool.begin(2, x.size(3), k) + e;
                  if (d < 0 || h < 0 || w < 0 || d >= x.size(1) || h >= x.size(2) || w >= x.size(3))
                    continue;
                  best = std::max(best, in[n][d][h][w][c]);
                  sum += in[n][d][h][w][c];
                  ++count;
                }
            out[n][i][j][k][c] = largest ? best : sum / count;
          }
  return y;
}

void expect_near(const Tensor& y, const Tensor& expected) {
  ASSERT_EQ(y.sizes(), expected.sizes());
  EXPECT_LT((y - expected).abs().max().item<double>(), 1e-13);
}

TEST(Pooling1D, AgreesWithPlainLoops) {
  for (const Padding padding : {Padding::kValid, Padding::kSame}) {
    for (const auto& [steps, size, strides] :
         {std::array<int64_t, 3>{8, 2, 2}, {9, 3, 2}, {7, 4, 1}, {7, 2, 3}}) {
      Fixture fixture;
      const Tensor x = numbers({2, steps, 3}) - 2;
      const Tensor volumes = x.unsqueeze(1).unsqueeze(1);
      const Pool pool{{1, 1, size}, {1, 1, strides}, padding};
      const Pooling1DOptions options{.pool_size = size, .strides = strides, .padding = padding};
      expect_near(MaxPooling1D(options)(x, fixture.context),
                  plain_pool(volumes, pool, true).squeeze(1).squeeze(1));
      expect_near(AveragePooling1D(options)(x, fixture.context),
                  plain_pool(volumes, pool, false).squeeze(1).squeeze(1));
    }
  }
}

TEST(Pooling2D, AgreesWithPlainLoops) {
  struct Case {
    int64_t height, width;
    Size2D size, strides;
  };
  for (const Padding padding : {Padding::kValid, Padding::kSame}) {
    for (const Case& c : {Case{6, 8, 2, 2}, Case{7, 5, 2, 2}, Case{7, 7, 3, 2},
                          Case{5, 6, {2, 3}, 1}, Case{6, 6, 3, {1, 2}}}) {
      Fixture fixture;
      // Negative everywhere: padding with zeros would win.
      const Tensor x = numbers({2, c.height, c.width, 3}) - 2;
      const Pool pool{
          {1, c.size.height, c.size.width}, {1, c.strides.height, c.strides.width}, padding};
      const Pooling2DOptions options{.pool_size = c.size, .strides = c.strides, .padding = padding};
      EXPECT_TRUE(MaxPooling2D(options)(x, fixture.context)
                      .equal(plain_pool(x.unsqueeze(1), pool, true).squeeze(1)));
      expect_near(AveragePooling2D(options)(x, fixture.context),
                  plain_pool(x.unsqueeze(1), pool, false).squeeze(1));
      EXPECT_TRUE(fixture.store.variables().empty());
    }
  }
  Fixture fixture;
  EXPECT_EQ(MaxPooling2D()(numbers({1, 7, 6, 2}), fixture.context).sizes(),
            (std::vector<int64_t>{1, 3, 3, 2}));
}

TEST(Pooling3D, AgreesWithPlainLoops) {
  for (const Padding padding : {Padding::kValid, Padding::kSame}) {
    for (const auto& [size, strides] :
         {std::array<Size3D, 2>{2, 2}, {Size3D(1, 2, 3), Size3D(1, 1, 2)}, {3, {2, 1, 1}}}) {
      Fixture fixture;
      const Tensor x = numbers({2, 4, 5, 6, 2}) - 2;
      const Pool pool{{size.depth, size.height, size.width},
                      {strides.depth, strides.height, strides.width},
                      padding};
      const Pooling3DOptions options{.pool_size = size, .strides = strides, .padding = padding};
      expect_near(MaxPooling3D(options)(x, fixture.context), plain_pool(x, pool, true));
      expect_near(AveragePooling3D(options)(x, fixture.context), plain_pool(x, pool, false));
    }
  }
}

TEST(GlobalPooling, IsOverAllAxesBetweenBatchAndChannels) {
  const std::array<std::array<Layer, 2>, 3> layers{
      {{GlobalMaxPooling1D(), GlobalAveragePooling1D()},
       {GlobalMaxPooling2D(), GlobalAveragePooling2D()},
       {GlobalMaxPooling3D(), GlobalAveragePooling3D()}}};
  std::vector<int64_t> shape{2, 3};
  for (const auto& [largest, mean] : layers) {
    Fixture fixture;
    shape.insert(shape.begin() + 1, 4);
    const Tensor x = numbers(shape);
    const Tensor flat = x.reshape({2, -1, 3});
    expect_near(largest(x, fixture.context), std::get<0>(flat.max(1)));
    expect_near(mean(x, fixture.context), flat.mean(1));
  }
  Fixture fixture;
  EXPECT_EQ(
      GlobalAveragePooling2D({.keepdims = true})(numbers({2, 4, 5, 3}), fixture.context).sizes(),
      (std::vector<int64_t>{2, 1, 1, 3}));
}

TEST(GlobalPooling, AveragesTheStepsThatCount) {
  Fixture fixture;
  const Tensor x = numbers({2, 3, 4});
  const Tensor mask = torch::tensor({1, 0, 1, 0, 1, 0}).view({2, 3}).to(at::kBool);
  const LayerOutputs out =
      GlobalAveragePooling1D()(LayerInputs{.tensors = {x}, .masks = {mask}}, fixture.context);
  expect_near(out.tensors[0][0], (x[0][0] + x[0][2]) / 2);
  expect_near(out.tensors[0][1], x[1][1]);
  EXPECT_TRUE(out.masks.empty());
}

TEST(Pooling, RefusesWhatKerasRefuses) {
  EXPECT_EQ(message_of([] { AveragePooling1D({.pool_size = 0}); }),
            "AveragePooling1D: pool_size is 0");
  EXPECT_EQ(message_of([] { MaxPooling3D(Pooling3DOptions{.strides = Size3D(1, 0, 1)}); }),
            "MaxPooling3D: strides is 1x0x1");
  EXPECT_EQ(message_of([] { MaxPooling1D(Pooling1DOptions{.padding = Padding::kCausal}); }),
            "MaxPooling1D: padding is kCausal");
  Fixture fixture;
  EXPECT_EQ(message_of([&] {
              AveragePooling2D()(numbers({1, 1, 4, 2}), fixture.context);
            }),
            "layer average_pooling2d: expected images of at least 2x2, was given "
            "float64[1, 1, 4, 2]");
  EXPECT_EQ(message_of([&] {
              GlobalMaxPooling1D()(numbers({1, 4}), fixture.context);
            }),
            "layer global_max_pooling1d: expected sequences [batch, steps, channels], was given "
            "float64[1, 4]");
  EXPECT_EQ(message_of([&] {
              MaxPooling2D()(torch::ones({1, 4, 4, 1}, at::kByte), fixture.context);
            }),
            "layer max_pooling2d: expected an input of a floating dtype, was given "
            "uint8[1, 4, 4, 1]");
}

}  // namespace
}  // namespace muster::inline v0_1
