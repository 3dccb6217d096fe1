#include "muster/layers/convolution.h"

#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/layers/internal/test_layers.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using testing::Fixture;
using testing::numbers;

double at4(const Tensor& t, int64_t a, int64_t b, int64_t c, int64_t d) {
  return t.data_ptr<double>()[((a * t.size(1) + b) * t.size(2) + c) * t.size(3) + d];
}

struct Window {
  int64_t outputs, before;
};

// TensorFlow's definition of "same" and "valid", written out once more.
Window window_of(Padding padding, int64_t size, int64_t window, int64_t stride) {
  if (padding == Padding::kValid) return {(size - window) / stride + 1, 0};
  const int64_t outputs = (size + stride - 1) / stride;
  return {outputs, std::max<int64_t>((outputs - 1) * stride + window - size, 0) / 2};
}

Tensor plain_conv(const Tensor& x, const Tensor& kernel, const Tensor& bias, Size2D strides,
                  Padding padding) {
  const Window h = window_of(padding, x.size(1), kernel.size(0), strides.height);
  const Window w = window_of(padding, x.size(2), kernel.size(1), strides.width);
  Tensor y = torch::empty({x.size(0), h.outputs, w.outputs, kernel.size(3)}, at::kDouble);
  double* out = y.data_ptr<double>();
  for (int64_t n = 0; n < y.size(0); ++n)
    for (int64_t i = 0; i < h.outputs; ++i)
      for (int64_t j = 0; j < w.outputs; ++j)
        for (int64_t f = 0; f < kernel.size(3); ++f) {
          double sum = bias.data_ptr<double>()[f];
          for (int64_t a = 0; a < kernel.size(0); ++a)
            for (int64_t b = 0; b < kernel.size(1); ++b)
              for (int64_t c = 0; c < kernel.size(2); ++c) {
                const int64_t row = i * strides.height - h.before + a;
                const int64_t column = j * strides.width - w.before + b;
                if (row < 0 || row >= x.size(1) || column < 0 || column >= x.size(2)) continue;
                sum += at4(x, n, row, column, c) * at4(kernel, a, b, c, f);
              }
          *out++ = sum;
        }
  return y;
}

Tensor plain_pool(const Tensor& x, Size2D pool, Size2D strides, Padding padding) {
  const Window h = window_of(padding, x.size(1), pool.height, strides.height);
  const Window w = window_of(padding, x.size(2), pool.width, strides.width);
  Tensor y = torch::empty({x.size(0), h.outputs, w.outputs, x.size(3)}, at::kDouble);
  double* out = y.data_ptr<double>();
  for (int64_t n = 0; n < y.size(0); ++n)
    for (int64_t i = 0; i < h.outputs; ++i)
      for (int64_t j = 0; j < w.outputs; ++j)
        for (int64_t c = 0; c < x.size(3); ++c) {
          double best = -1e300;
          for (int64_t a = 0; a < pool.height; ++a)
            for (int64_t b = 0; b < pool.width; ++b) {
              const int64_t row = i * strides.height - h.before + a;
              const int64_t column = j * strides.width - w.before + b;
              if (row < 0 || row >= x.size(1) || column < 0 || column >= x.size(2)) continue;
              best = std::max(best, at4(x, n, row, column, c));
            }
          *out++ = best;
        }
  return y;
}

TEST(Conv2D, AgreesWithPlainLoops) {
  struct Case {
    int64_t height, width, channels;
    Size2D kernel, strides;
  };
  for (const Case& c : {Case{7, 6, 1, 3, 1}, Case{7, 6, 3, {2, 3}, 1}, Case{9, 8, 2, 3, 2},
                        Case{6, 7, 2, {4, 2}, {2, 3}}, Case{5, 5, 4, 1, 1}, Case{8, 8, 1, 5, 2}}) {
    for (const Padding padding : {Padding::kValid, Padding::kSame}) {
      Fixture fixture;
      const Layer layer = Conv2D(5, c.kernel,
                                 {.strides = c.strides,
                                  .padding = padding,
                                  .bias_initializer = initializers::random_uniform(-1, 1)});
      const Tensor x = numbers({2, c.height, c.width, c.channels});
      const Tensor y = layer(x, fixture.context);
      const Tensor expected = plain_conv(x, fixture.store.value("conv2d/kernel"),
                                         fixture.store.value("conv2d/bias"), c.strides, padding);
      ASSERT_EQ(y.sizes(), expected.sizes());
      EXPECT_LT((y - expected).abs().max().item<double>(), 1e-12);
      EXPECT_TRUE(y.is_contiguous()) << "images stay channels last in memory";
    }
  }
}

TEST(MaxPooling2D, AgreesWithPlainLoops) {
  struct Case {
    int64_t height, width;
    Size2D pool, strides;
  };
  for (const Case& c : {Case{6, 8, 2, 2}, Case{7, 5, 2, 2}, Case{7, 7, 3, 2}, Case{5, 6, {2, 3}, 1},
                        Case{6, 6, 3, {1, 2}}}) {
    for (const Padding padding : {Padding::kValid, Padding::kSame}) {
      Fixture fixture;
      // Negative everywhere: padding with zeros would win.
      const Tensor x = numbers({2, c.height, c.width, 3}) - 2;
      const Tensor y = MaxPooling2D(
          {.pool_size = c.pool, .strides = c.strides, .padding = padding})(x, fixture.context);
      EXPECT_TRUE(torch::equal(y, plain_pool(x, c.pool, c.strides, padding)));
      EXPECT_TRUE(fixture.store.variables().empty());
    }
  }
  Fixture fixture;
  EXPECT_EQ(MaxPooling2D()(numbers({1, 7, 6, 2}), fixture.context).sizes(),
            (std::vector<int64_t>{1, 3, 3, 2}));
}

}  // namespace
}  // namespace muster::inline v0_1
