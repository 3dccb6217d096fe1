#include "muster/layers/convolution.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>

#include "muster/base/error_of.h"
#include "muster/layers/internal/test_layers.h"
#include "muster/tensor/gradient_destination.h"
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
      // No rows give no rows, whether gradients are recorded or not.
      const Tensor none = x.narrow(0, 0, 0);
      Shape sizes = y.sizes().vec();
      sizes[0] = 0;
      EXPECT_EQ(layer(none, fixture.context).sizes(), sizes);
      const torch::NoGradGuard no_grad;
      EXPECT_EQ(layer(none, fixture.context).sizes(), sizes);
    }
  }
}

TEST(Conv2D, WritesTheGradientWhereItIsWanted) {
  struct Memory : GradientDestinations {
    Tensor take(const Tensor& parameter) override {
      Tensor memory = torch::full(parameter.sizes(), 7, parameter.options().requires_grad(false));
      taken.push_back(static_cast<double*>(memory.data_ptr()));
      return memory;
    }
    std::vector<double*> taken;
  } memory;
  Fixture fixture, other;
  const Layer conv = Conv2D(5, {2, 3}, {.use_bias = false});
  const Tensor x = numbers({2, 6, 7, 3});
  const Tensor weights = numbers({2, 5, 5, 5});
  const auto gradient = [&](Fixture& place) {
    (conv(x, place.context) * weights).sum().backward();
    return place.store.value("conv2d/kernel").grad();
  };
  const Tensor expected = gradient(other);
  Tensor found;
  {
    // Backward of one thread runs on the calling thread.
    const GradientDestinations::Scope scope(memory);
    found = gradient(fixture);
  }
  ASSERT_EQ(memory.taken.size(), 1u);
  EXPECT_EQ(found.data_ptr(), memory.taken[0]);
  EXPECT_TRUE(torch::equal(found, expected));
  EXPECT_TRUE(expected.is_contiguous());
}

// A convolution of volumes [batch, depth, height, width, channels] in plain loops; an input with
// fewer axes is a volume of depth 1, and of height 1.
struct PlainConv {
  std::array<int64_t, 3> strides{1, 1, 1};
  std::array<int64_t, 3> dilation{1, 1, 1};
  int64_t groups = 1;
  Padding padding = Padding::kValid;

  Window window(int64_t axis, int64_t size, int64_t kernel) const {
    const int64_t span = (kernel - 1) * dilation[axis] + 1;
    if (padding != Padding::kCausal) return window_of(padding, size, span, strides[axis]);
    return {(size + strides[axis] - 1) / strides[axis], span - 1};
  }

  Tensor operator()(const Tensor& x, const Tensor& kernel, const Tensor& bias) const {
    std::array<Window, 3> windows;
    for (int64_t i = 0; i < 3; ++i) windows[i] = window(i, x.size(i + 1), kernel.size(i));
    const int64_t filters = kernel.size(4), channels = kernel.size(3);
    Tensor y = torch::empty(
        {x.size(0), windows[0].outputs, windows[1].outputs, windows[2].outputs, filters},
        at::kDouble);
    const auto in = x.accessor<double, 5>();
    const auto weights = kernel.accessor<double, 5>();
    auto out = y.accessor<double, 5>();
    for (int64_t n = 0; n < y.size(0); ++n)
      for (int64_t i = 0; i < y.size(1); ++i)
        for (int64_t j = 0; j < y.size(2); ++j)
          for (int64_t k = 0; k < y.size(3); ++k)
            for (int64_t f = 0; f < filters; ++f) {
              double sum = bias[f].item<double>();
              const int64_t first = f / (filters / groups) * channels;
              for (int64_t a = 0; a < kernel.size(0); ++a)
                for (int64_t b = 0; b < kernel.size(1); ++b)
                  for (int64_t c = 0; c < kernel.size(2); ++c) {
                    const int64_t d = i * strides[0] - windows[0].before + a * dilation[0];
                    const int64_t h = j * strides[1] - windows[1].before + b * dilation[1];
                    const int64_t w = k * strides[2] - windows[2].before + c * dilation[2];
                    if (d < 0 || h < 0 || w < 0 || d >= x.size(1) || h >= x.size(2) ||
                        w >= x.size(3))
                      continue;
                    for (int64_t e = 0; e < channels; ++e)
                      sum += in[n][d][h][w][first + e] * weights[a][b][c][e][f];
                  }
              out[n][i][j][k][f] = sum;
            }
    return y;
  }
};

const Initializer some_bias = initializers::random_uniform(-1, 1);

void expect_close(const Tensor& y, const Tensor& expected) {
  ASSERT_EQ(y.sizes(), expected.sizes());
  EXPECT_LT((y - expected).abs().max().item<double>(), 1e-12);
}

TEST(Conv1D, AgreesWithPlainLoops) {
  struct Case {
    int64_t steps, channels, kernel, strides, dilation, groups;
  };
  for (const Case& c : {Case{9, 3, 3, 1, 1, 1}, Case{10, 2, 4, 3, 1, 1}, Case{11, 4, 3, 1, 2, 2},
                        Case{7, 6, 2, 1, 3, 3}, Case{8, 1, 5, 2, 1, 1}}) {
    for (const Padding padding : {Padding::kValid, Padding::kSame, Padding::kCausal}) {
      Fixture fixture;
      const Layer layer = Conv1D(6, c.kernel,
                                 {.strides = c.strides,
                                  .padding = padding,
                                  .dilation_rate = c.dilation,
                                  .groups = c.groups,
                                  .bias_initializer = some_bias});
      const Tensor x = numbers({2, c.steps, c.channels});
      const Tensor y = layer(x, fixture.context);
      const Tensor& kernel = fixture.store.value("conv1d/kernel");
      ASSERT_EQ(kernel.sizes(), (std::vector<int64_t>{c.kernel, c.channels / c.groups, 6}));
      const PlainConv plain{{1, 1, c.strides}, {1, 1, c.dilation}, c.groups, padding};
      // Causal padding of an axis with one element and a kernel of one adds nothing.
      expect_close(y, plain(x.unsqueeze(1).unsqueeze(1), kernel.unsqueeze(0).unsqueeze(0),
                            fixture.store.value("conv1d/bias"))
                          .squeeze(1)
                          .squeeze(1));
    }
  }
}

TEST(Conv2D, DilatesAndTakesGroups) {
  struct Case {
    int64_t channels, groups;
    Size2D kernel, strides, dilation;
  };
  for (const Case& c : {Case{2, 1, 3, 1, 2}, Case{4, 2, {3, 2}, 2, 1}, Case{6, 3, 2, 1, {1, 3}},
                        Case{6, 6, 3, {2, 1}, 1}}) {
    for (const Padding padding : {Padding::kValid, Padding::kSame}) {
      Fixture fixture;
      const Layer layer = Conv2D(6, c.kernel,
                                 {.strides = c.strides,
                                  .padding = padding,
                                  .dilation_rate = c.dilation,
                                  .groups = c.groups,
                                  .bias_initializer = some_bias});
      const Tensor x = numbers({2, 8, 7, c.channels});
      const Tensor y = layer(x, fixture.context);
      const PlainConv plain{{1, c.strides.height, c.strides.width},
                            {1, c.dilation.height, c.dilation.width},
                            c.groups,
                            padding};
      expect_close(y, plain(x.unsqueeze(1), fixture.store.value("conv2d/kernel").unsqueeze(0),
                            fixture.store.value("conv2d/bias"))
                          .squeeze(1));
    }
  }
}

TEST(Conv3D, AgreesWithPlainLoops) {
  struct Case {
    int64_t channels, groups;
    Size3D kernel, strides, dilation;
  };
  for (const Case& c : {Case{2, 1, 2, 1, 1}, Case{1, 1, {2, 3, 1}, {1, 2, 2}, 1},
                        Case{4, 2, {1, 2, 3}, 1, {1, 2, 1}}}) {
    for (const Padding padding : {Padding::kValid, Padding::kSame}) {
      Fixture fixture;
      const Layer layer = Conv3D(4, c.kernel,
                                 {.strides = c.strides,
                                  .padding = padding,
                                  .dilation_rate = c.dilation,
                                  .groups = c.groups,
                                  .bias_initializer = some_bias});
      const Tensor x = numbers({2, 4, 5, 6, c.channels});
      const Tensor y = layer(x, fixture.context);
      const PlainConv plain{{c.strides.depth, c.strides.height, c.strides.width},
                            {c.dilation.depth, c.dilation.height, c.dilation.width},
                            c.groups,
                            padding};
      expect_close(
          y, plain(x, fixture.store.value("conv3d/kernel"), fixture.store.value("conv3d/bias")));
    }
  }
}

// The transpose of a linear map A is the one with <A u, v> = <u, transpose v> for all u and v. A is
// the convolution from the result's shape to the input's.
TEST(Conv2DTranspose, IsTheTransposeOfAConvolution) {
  struct Case {
    Size2D kernel, strides, dilation;
    std::optional<Size2D> output_padding{};
    Padding padding;
    std::vector<int64_t> result{};  // of 4 x 5
  };
  const auto none = std::nullopt;
  for (const Case& c :
       {Case{3, 1, 1, none, Padding::kValid, {6, 7}}, Case{3, 2, 1, none, Padding::kValid, {9, 11}},
        Case{{2, 1}, 3, 1, none, Padding::kValid, {12, 15}},
        Case{3, 2, 1, none, Padding::kSame, {8, 10}},
        Case{{4, 5}, {2, 3}, 1, none, Padding::kSame, {8, 15}},
        Case{2, 3, 1, none, Padding::kSame, {12, 15}}, Case{3, 1, 2, none, Padding::kSame, {4, 5}},
        Case{3, 2, 1, Size2D(1), Padding::kValid, {10, 12}},
        Case{3, {2, 3}, 1, Size2D(0, 2), Padding::kSame, {7, 15}},
        Case{{4, 3}, 2, 1, Size2D(1, 0), Padding::kSame, {7, 9}}}) {
    Fixture fixture;
    const Layer layer = Conv2DTranspose(3, c.kernel,
                                        {.strides = c.strides,
                                         .padding = c.padding,
                                         .output_padding = c.output_padding,
                                         .dilation_rate = c.dilation,
                                         .use_bias = false});
    const Tensor v = numbers({2, 4, 5, 2});
    const Tensor y = layer(v, fixture.context);
    ASSERT_EQ(y.sizes(), (std::vector<int64_t>{2, c.result[0], c.result[1], 3}));
    const Tensor& kernel = fixture.store.value("conv2d_transpose/kernel");
    ASSERT_EQ(kernel.sizes(), (std::vector<int64_t>{c.kernel.height, c.kernel.width, 3, 2}));
    const Tensor u = numbers(y.sizes(), 0.8);
    const PlainConv plain{{1, c.strides.height, c.strides.width},
                          {1, c.dilation.height, c.dilation.width},
                          1,
                          c.padding};
    const Tensor convolved =
        plain(u.unsqueeze(1), kernel.unsqueeze(0), torch::zeros({2}, at::kDouble)).squeeze(1);
    ASSERT_EQ(convolved.sizes(), v.sizes());
    EXPECT_NEAR((convolved * v).sum().item<double>(), (u * y).sum().item<double>(), 1e-10);
  }
}

TEST(Conv2DTranspose, AddsItsBiasEverywhere) {
  Fixture fixture;
  const Layer layer =
      Conv2DTranspose(2, 1, {.strides = 3, .bias_initializer = initializers::constant(0.5)});
  const Tensor y = layer(torch::zeros({1, 2, 2, 1}), fixture.context);
  EXPECT_EQ(y.sizes(), (std::vector<int64_t>{1, 6, 6, 2}));
  EXPECT_TRUE(y.eq(0.5).all().item<bool>());
}

TEST(DepthwiseConv2D, ConvolvesEachChannelByItself) {
  for (const Padding padding : {Padding::kValid, Padding::kSame}) {
    Fixture fixture;
    const Layer layer = DepthwiseConv2D(
        {3, 2},
        {.strides = 2, .padding = padding, .depth_multiplier = 2, .bias_initializer = some_bias});
    const Tensor x = numbers({2, 6, 7, 3});
    const Tensor y = layer(x, fixture.context);
    const Tensor& kernel = fixture.store.value("depthwise_conv2d/depthwise_kernel");
    const Tensor& bias = fixture.store.value("depthwise_conv2d/bias");
    ASSERT_EQ(kernel.sizes(), (std::vector<int64_t>{3, 2, 3, 2}));
    for (int64_t k = 0; k < 3; ++k) {
      const PlainConv plain{{1, 2, 2}, {1, 1, 1}, 1, padding};
      expect_close(y.slice(3, 2 * k, 2 * k + 2),
                   plain(x.slice(3, k, k + 1).unsqueeze(1), kernel.slice(2, k, k + 1).unsqueeze(0),
                         bias.slice(0, 2 * k, 2 * k + 2))
                       .squeeze(1));
    }
  }
}

TEST(SeparableConv2D, MixesWhatTheDepthwiseOneGives) {
  Fixture fixture;
  const Layer layer = SeparableConv2D(5, 3,
                                      {.padding = Padding::kSame,
                                       .dilation_rate = 2,
                                       .depth_multiplier = 2,
                                       .activation = activations::tanh,
                                       .bias_initializer = some_bias});
  const Tensor x = numbers({2, 6, 5, 3});
  const Tensor y = layer(x, fixture.context);
  EXPECT_EQ(fixture.store.names(), (std::vector<std::string>{"separable_conv2d/depthwise_kernel",
                                                             "separable_conv2d/pointwise_kernel",
                                                             "separable_conv2d/bias"}));
  const Tensor& depthwise = fixture.store.value("separable_conv2d/depthwise_kernel");
  const Tensor& pointwise = fixture.store.value("separable_conv2d/pointwise_kernel");
  ASSERT_EQ(pointwise.sizes(), (std::vector<int64_t>{1, 1, 6, 5}));
  // Both kernels together are one of a usual convolution.
  const Tensor joint =
      torch::einsum("hwcm,cmf->hwcf", {depthwise, pointwise.view({3, 2, 5})}).contiguous();
  const PlainConv plain{{1, 1, 1}, {1, 2, 2}, 1, Padding::kSame};
  expect_close(
      y, plain(x.unsqueeze(1), joint.unsqueeze(0), fixture.store.value("separable_conv2d/bias"))
             .squeeze(1)
             .tanh());
}

TEST(Convolutions, RefuseWhatKerasRefuses) {
  EXPECT_EQ(message_of([] { Conv1D(0, 3); }), "Conv1D: filters is 0");
  EXPECT_EQ(message_of([] { Conv3D(1, {3, 0, 3}); }), "Conv3D: kernel_size is 3x0x3");
  EXPECT_EQ(message_of([] { Conv2D(1, 3, Conv2DOptions{.dilation_rate = 0}); }),
            "Conv2D: dilation_rate is 0");
  EXPECT_EQ(message_of([] { Conv2D(1, 3, Conv2DOptions{.groups = 0}); }), "Conv2D: groups is 0");
  EXPECT_EQ(message_of([] { Conv2D(5, 3, Conv2DOptions{.groups = 2}); }),
            "Conv2D: filters is 5, and groups 2");
  EXPECT_EQ(message_of([] {
              Conv2D(1, 3, {.strides = 2, .dilation_rate = {1, 3}});
            }),
            "Conv2D: strides is 2x2, and dilation_rate 1x3");
  EXPECT_EQ(message_of([] { Conv2D(1, 3, Conv2DOptions{.padding = Padding::kCausal}); }),
            "Conv2D: padding is kCausal");
  EXPECT_EQ(message_of([] { Conv2DTranspose(1, 3, {.strides = 2, .output_padding = 2}); }),
            "Conv2DTranspose: output_padding is 2, and strides 2");
  EXPECT_EQ(message_of([] { DepthwiseConv2D(3, DepthwiseConv2DOptions{.depth_multiplier = 0}); }),
            "DepthwiseConv2D: depth_multiplier is 0");
  Fixture fixture;
  EXPECT_EQ(message_of([&] {
              Conv2D(4, 3, Conv2DOptions{.groups = 2})(numbers({1, 5, 5, 3}), fixture.context);
            }),
            "layer conv2d: expected channels that 2 groups divide, was given float64[1, 5, 5, 3]");
  EXPECT_EQ(message_of([&] {
              Conv1D(4, 3)(numbers({1, 5, 5, 3}), fixture.context);
            }),
            "layer conv1d: expected sequences [batch, steps, channels], was given "
            "float64[1, 5, 5, 3]");
  EXPECT_EQ(message_of([&] {
              Conv1D(4, 3, Conv1DOptions{.dilation_rate = 2})(numbers({1, 4, 3}), fixture.context);
            }),
            "layer conv1d_1: expected sequences of at least 5, was given float64[1, 4, 3]");
  EXPECT_EQ(message_of([&] {
              Conv3D(4, 3)(numbers({1, 5, 5, 2, 3}), fixture.context);
            }),
            "layer conv3d: expected volumes of at least 3x3x3, was given float64[1, 5, 5, 2, 3]");
  const Layer depthwise = DepthwiseConv2D(3);
  depthwise(numbers({1, 5, 5, 3}), fixture.context);
  EXPECT_EQ(message_of([&] {
              depthwise(numbers({1, 5, 5, 2}), fixture.context);
            }),
            "layer depthwise_conv2d: expected images [batch, height, width, 3], was given "
            "float64[1, 5, 5, 2]");
}

}  // namespace
}  // namespace muster::inline v0_1
