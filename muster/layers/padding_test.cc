#include "muster/layers/padding.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "muster/layers/convolution.h"
#include "muster/layers/internal/test_layers.h"
#include "muster/layers/sequential.h"
#include "muster/layers/upsampling.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using testing::Fixture;
using testing::numbers;

// The value at a place of the input, and 0 outside of it.
double value_or_zero(const Tensor& x, const std::vector<int64_t>& place) {
  Tensor element = x;
  for (const int64_t i : place) {
    if (i < 0 || i >= element.size(0)) return 0;
    element = element[i];
  }
  return element.item<double>();
}

// Every element of `y` is the one of `x` that lies `before` places in front of it.
void expect_moved(const Tensor& y, const Tensor& x, const std::vector<int64_t>& before,
                  const std::vector<int64_t>& sizes) {
  ASSERT_EQ(y.sizes(), sizes);
  for (int64_t flat = 0; flat < y.numel(); ++flat) {
    std::vector<int64_t> place(sizes.size());
    int64_t rest = flat;
    for (size_t axis = sizes.size(); axis-- > 0;) {
      place[axis] = rest % sizes[axis] - before[axis];
      rest /= sizes[axis];
    }
    ASSERT_EQ(y.reshape(-1)[flat].item<double>(), value_or_zero(x, place)) << "element " << flat;
  }
}

TEST(ZeroPadding, PutsZerosAroundTheInput) {
  Fixture fixture;
  const auto call = [&](const Layer& layer, const Tensor& x) { return layer(x, fixture.context); };
  const Tensor steps = numbers({2, 3, 2}), images = numbers({2, 3, 4, 2}),
               volumes = numbers({1, 2, 3, 2, 2});
  expect_moved(call(ZeroPadding1D(), steps), steps, {0, 1, 0}, {2, 5, 2});
  expect_moved(call(ZeroPadding1D({2, 0}), steps), steps, {0, 2, 0}, {2, 5, 2});
  expect_moved(call(ZeroPadding2D(), images), images, {0, 1, 1, 0}, {2, 5, 6, 2});
  expect_moved(call(ZeroPadding2D({1, 2}), images), images, {0, 1, 2, 0}, {2, 5, 8, 2});
  expect_moved(call(ZeroPadding2D({{1, 0}, {2, 3}}), images), images, {0, 1, 2, 0}, {2, 4, 9, 2});
  expect_moved(call(ZeroPadding3D({{1, 0}, 2, {0, 1}}), volumes), volumes, {0, 1, 2, 0, 0},
               {1, 3, 7, 3, 2});
}

TEST(Cropping, CutsTheBordersOff) {
  Fixture fixture;
  const auto call = [&](const Layer& layer, const Tensor& x) { return layer(x, fixture.context); };
  const Tensor steps = numbers({2, 5, 2}), images = numbers({2, 5, 6, 2}),
               volumes = numbers({1, 3, 4, 5, 2});
  expect_moved(call(Cropping1D(), steps), steps, {0, -1, 0}, {2, 3, 2});
  expect_moved(call(Cropping2D(), images), images, {0, 0, 0, 0}, {2, 5, 6, 2});
  expect_moved(call(Cropping2D({{1, 2}, {0, 3}}), images), images, {0, -1, 0, 0}, {2, 2, 3, 2});
  expect_moved(call(Cropping3D(), volumes), volumes, {0, -1, -1, -1, 0}, {1, 1, 2, 3, 2});
}

TEST(Margins, ThatDoNotFitAreRefused) {
  Fixture fixture;
  EXPECT_EQ(message_of([] { ZeroPadding2D({{1, -1}, 0}); }), "ZeroPadding2D: padding is -1");
  EXPECT_EQ(message_of([] { Cropping1D(-2); }), "Cropping1D: cropping is -2");
  EXPECT_EQ(message_of([&] {
              Cropping2D({0, {2, 2}})(numbers({1, 4, 4, 1}), fixture.context);
            }),
            "layer cropping2d: expected more than 4 elements in axis 2, was given "
            "float64[1, 4, 4, 1]");
  EXPECT_EQ(message_of([&] {
              ZeroPadding1D()(numbers({1, 4, 4, 1}), fixture.context);
            }),
            "layer zero_padding1d: expected sequences [batch, steps, channels], was given "
            "float64[1, 4, 4, 1]");
}

TEST(ZeroPadding2D, RunsAsOneWithTheConvolutionAfterIt) {
  struct Case {
    Margins2D margins;
    int64_t size{};
  };
  // The second is too small for the window alone, and the third has more below than above.
  for (const Case& c : {Case{{1, 2}, 6}, Case{2, 2}, Case{{{0, 1}, 1}, 6}}) {
    const Layer pad = ZeroPadding2D(c.margins);
    const Layer conv = Conv2D(3, 3, {.strides = 2, .activation = activations::relu});
    Fixture apart, together;
    const Tensor x = numbers({2, c.size, c.size, 2}).requires_grad_();
    const Tensor expected = conv(pad(x, apart.context), apart.context);
    const Tensor y = Sequential({pad, conv})(x, together.context);
    EXPECT_TRUE(torch::allclose(y, expected, 1e-13, 1e-13));
    const Tensor weights = numbers(expected.sizes());
    const auto gradients = [&](const Tensor& output, Fixture& fixture) {
      return torch::autograd::grad({(output * weights).sum()},
                                   {x, fixture.store.value("conv2d/kernel")});
    };
    const auto one = gradients(y, together), other = gradients(expected, apart);
    for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(torch::allclose(one[i], other[i], 1e-12, 1e-12));
    EXPECT_EQ(together.store.names(), apart.store.names());
  }
}

TEST(UpSampling, RepeatsNeighbours) {
  Fixture fixture;
  const Tensor steps = numbers({2, 3, 2}), images = numbers({2, 3, 4, 2}),
               volumes = numbers({1, 2, 3, 2, 2});
  EXPECT_TRUE(UpSampling1D(3)(steps, fixture.context).equal(steps.repeat_interleave(3, 1)));
  EXPECT_TRUE(UpSampling2D({.size = {3, 2}})(images, fixture.context)
                  .equal(images.repeat_interleave(3, 1).repeat_interleave(2, 2)));
  EXPECT_TRUE(UpSampling3D({1, 2, 3})(volumes, fixture.context)
                  .equal(volumes.repeat_interleave(2, 2).repeat_interleave(3, 3)));
  EXPECT_EQ(message_of([] { UpSampling2D({.size = {2, 0}}); }), "UpSampling2D: size is 0");
}

// A new pixel i is at (i + 1/2) / factor - 1/2 of the old ones, of which there are none outside.
std::array<double, 3> neighbours(int64_t i, int64_t factor, int64_t size) {
  const double at =
      std::max((static_cast<double>(i) + 0.5) / static_cast<double>(factor) - 0.5, 0.0);
  const double low = std::floor(at);
  const auto last = static_cast<double>(size - 1);
  return {std::min(low, last), std::min(low + 1, last), at - low};
}

TEST(UpSampling, WeighsTheFourPixelsAround) {
  Fixture fixture;
  const Tensor x = numbers({2, 3, 4, 2});
  const Tensor y =
      UpSampling2D({.size = {2, 3}, .interpolation = Interpolation::kBilinear})(x, fixture.context);
  ASSERT_EQ(y.sizes(), (std::vector<int64_t>{2, 6, 12, 2}));
  const auto pixel = [&](double row, double column) {
    return x.select(1, static_cast<int64_t>(row)).select(1, static_cast<int64_t>(column));
  };
  for (int64_t i = 0; i < 6; ++i) {
    for (int64_t j = 0; j < 12; ++j) {
      const auto [top, bottom, down] = neighbours(i, 2, 3);
      const auto [left, right, across] = neighbours(j, 3, 4);
      const Tensor upper = pixel(top, left) * (1 - across) + pixel(top, right) * across;
      const Tensor lower = pixel(bottom, left) * (1 - across) + pixel(bottom, right) * across;
      const Tensor expected = upper * (1 - down) + lower * down;
      EXPECT_LT((y.select(1, i).select(1, j) - expected).abs().max().item<double>(), 1e-13);
    }
  }
}

}  // namespace
}  // namespace muster::inline v0_1
