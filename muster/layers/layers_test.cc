#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "muster/base/error.h"
#include "muster/base/error_of.h"
#include "muster/layers/convolution.h"
#include "muster/layers/core.h"
#include "muster/layers/internal/test_store.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using testing::TestStore;

struct Fixture {
  TestStore store;
  CallContext context{store, 11};
};

// Numbers without a pattern, all different.
Tensor numbers(at::IntArrayRef shape, double phase = 0.3) {
  int64_t n = 1;
  for (int64_t size : shape) n *= size;
  std::vector<double> values(n);
  for (int64_t i = 0; i < n; ++i) values[i] = std::sin(phase + 12.9898 * (i + 1) + 0.001 * i * i);
  return torch::tensor(values, at::kDouble).reshape(shape);
}

double at4(const Tensor& t, int64_t a, int64_t b, int64_t c, int64_t d) {
  return t.data_ptr<double>()[((a * t.size(1) + b) * t.size(2) + c) * t.size(3) + d];
}

std::string message_of(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return error.message();
  }
  ADD_FAILURE() << "no error was thrown";
  return {};
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

// Compares gradients of sum(layer(x) * weights) with central differences, for the input and every
// variable.
void check_gradients(const Layer& layer, Tensor x) {
  Fixture fixture;
  fixture.context.begin_step(true, 0, 0);
  x = x.clone().requires_grad_();
  const Tensor first = layer(x, fixture.context);
  const Tensor weights = numbers(first.sizes(), 1.7);
  // The same step again: dropout draws the same mask.
  const auto loss = [&] {
    fixture.context.begin_step(true, 0, 0);
    return (layer(x, fixture.context) * weights).sum();
  };
  std::vector<Tensor> leaves = {x};
  for (const auto& variable : fixture.store.variables()) leaves.push_back(variable->value());
  loss().backward();
  constexpr double kStep = 1e-6;
  for (const Tensor& leaf : leaves) {
    ASSERT_TRUE(leaf.grad().defined());
    const Tensor gradient = leaf.grad().contiguous();
    const int64_t stride = std::max<int64_t>(1, leaf.numel() / 40);
    torch::NoGradGuard no_grad;
    double* value = leaf.data_ptr<double>();
    for (int64_t i = 0; i < leaf.numel(); i += stride) {
      const double kept = value[i];
      value[i] = kept + kStep;
      const double above = loss().item<double>();
      value[i] = kept - kStep;
      const double below = loss().item<double>();
      value[i] = kept;
      EXPECT_NEAR(gradient.data_ptr<double>()[i], (above - below) / (2 * kStep), 1e-7)
          << "element " << i << " of " << describe(leaf);
    }
  }
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

TEST(Dense, AgreesWithPlainLoops) {
  for (const bool use_bias : {true, false}) {
    Fixture fixture;
    const Layer layer = Dense(4, {.activation = activations::tanh,
                                  .use_bias = use_bias,
                                  .bias_initializer = initializers::constant(0.25)});
    const Tensor x = numbers({3, 5});
    const Tensor y = layer(x, fixture.context);
    const Tensor& kernel = fixture.store.value("dense/kernel");
    ASSERT_EQ(kernel.sizes(), (std::vector<int64_t>{5, 4}));
    for (int64_t row = 0; row < 3; ++row)
      for (int64_t unit = 0; unit < 4; ++unit) {
        double sum = use_bias ? 0.25 : 0;
        for (int64_t i = 0; i < 5; ++i)
          sum += x[row][i].item<double>() * kernel[i][unit].item<double>();
        EXPECT_NEAR(y[row][unit].item<double>(), std::tanh(sum), 1e-14);
      }
    EXPECT_EQ(fixture.store.names().size(), use_bias ? 2u : 1u);
    // Over the last axis of any rank.
    const Tensor deep = numbers({2, 3, 5});
    const Tensor deep_y = layer(deep, fixture.context);
    EXPECT_TRUE(torch::allclose(deep_y[1], layer(deep[1], fixture.context), 0, 1e-14));
  }
}

TEST(Activations, AreTheTextbookFunctions) {
  const Tensor x = torch::tensor({{-1.5, 0.0, 2.0}}, at::kDouble);
  const double v[3] = {-1.5, 0.0, 2.0};
  const double sum = std::exp(v[0]) + std::exp(v[1]) + std::exp(v[2]);
  for (int i = 0; i < 3; ++i) {
    const auto at = [&](Activation a) { return activations::apply(a, x)[0][i].item<double>(); };
    EXPECT_EQ(at(linear), v[i]);
    EXPECT_EQ(at(relu), std::max(v[i], 0.0));
    EXPECT_NEAR(at(activations::tanh), std::tanh(v[i]), 1e-15);
    EXPECT_NEAR(at(sigmoid), 1 / (1 + std::exp(-v[i])), 1e-15);
    EXPECT_NEAR(at(softmax), std::exp(v[i]) / sum, 1e-15);
  }
}

TEST(Flatten, KeepsMemoryOrderWithoutACopy) {
  Fixture fixture;
  const Tensor x = numbers({2, 3, 4, 5});
  const Tensor y = Flatten()(x, fixture.context);
  EXPECT_EQ(y.sizes(), (std::vector<int64_t>{2, 60}));
  EXPECT_EQ(y.data_ptr(), x.data_ptr());
  EXPECT_EQ(Flatten()(numbers({3}), fixture.context).sizes(), (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(Flatten()(torch::zeros({0, 3, 4, 5}), fixture.context).sizes(),
            (std::vector<int64_t>{0, 60}));
}

TEST(Gradients, AgreeWithFiniteDifferences) {
  const auto bias = initializers::random_uniform(-0.5, 0.5);
  check_gradients(Dense(3, {.activation = sigmoid, .bias_initializer = bias}), numbers({4, 5}));
  check_gradients(Conv2D(3, 3, {.bias_initializer = bias}), numbers({2, 5, 6, 1}));
  check_gradients(Conv2D(2, {3, 2},
                         {.strides = 2,
                          .padding = Padding::kSame,
                          .activation = activations::tanh,
                          .bias_initializer = bias}),
                  numbers({2, 6, 5, 3}));
  check_gradients(MaxPooling2D({.pool_size = 3, .strides = 2, .padding = Padding::kSame}),
                  numbers({2, 6, 5, 2}));
  check_gradients(Dropout(0.4), numbers({6, 7}));
  check_gradients(
      Sequential({Conv2D(4, 3, {.activation = relu, .bias_initializer = bias}), MaxPooling2D(),
                  Flatten(), Dense(6, {.activation = relu}), Dense(3, {.activation = softmax})}),
      numbers({2, 8, 8, 1}));
}

// Sequential may reorder relu and pooling: values and gradients must be those of the layers called
// one by one.
TEST(Sequential, IsTheLayersOneAfterAnother) {
  for (const Padding padding : {Padding::kValid, Padding::kSame}) {
    for (const Size2D pool : {Size2D(2), Size2D(3, 2)}) {
      for (const int64_t channels : {1, 3}) {
        for (const auto dtype : {at::kFloat, at::kDouble}) {
          for (const int64_t filters : {5, 32}) {
            const Layer conv = Conv2D(filters, 3,
                                      {.padding = padding,
                                       .activation = relu,
                                       .bias_initializer = initializers::constant(-0.1)});
            const Layer pooling = MaxPooling2D({.pool_size = pool, .padding = padding});
            const Layer joined = Sequential({conv, pooling});
            const Tensor x = numbers({3, 9, 8, channels}).to(dtype);
            Tensor values[2], kernels[2], biases[2], inputs[2];
            for (const bool fused : {false, true}) {
              Fixture fixture;
              Tensor input = x.clone().requires_grad_();
              const Tensor y = fused ? joined(input, fixture.context)
                                     : pooling(conv(input, fixture.context), fixture.context);
              (y * numbers(y.sizes(), 0.9).to(dtype)).sum().backward();
              values[fused] = y.detach();
              inputs[fused] = input.grad();
              kernels[fused] = fixture.store.value("conv2d/kernel").grad();
              biases[fused] = fixture.store.value("conv2d/bias").grad();
            }
            const double tolerance = dtype == at::kDouble ? 1e-12 : 2e-5;
            EXPECT_TRUE(torch::allclose(values[0], values[1], tolerance, tolerance));
            EXPECT_TRUE(torch::allclose(inputs[0], inputs[1], tolerance, tolerance));
            EXPECT_TRUE(torch::allclose(kernels[0], kernels[1], tolerance, tolerance));
            EXPECT_TRUE(torch::allclose(biases[0], biases[1], tolerance, tolerance));
          }
        }
      }
    }
  }
}

// The first layer of an image model runs in one pass of its own: values and gradients must be those
// of the layers called one by one, whatever the number of threads.
TEST(Sequential, FirstLayerInOnePassAgreesWithTheLayers) {
  const int threads = at::get_num_threads();
  for (const int use : {1, 3}) {
    at::set_num_threads(use);
    for (const int64_t filters : {16, 32, 48}) {
      for (const int64_t channels : {1, 2, 3}) {
        for (const Size2D kernel : {Size2D(3), Size2D(2, 4), Size2D(1), Size2D(5)}) {
          const Layer conv =
              Conv2D(filters, kernel,
                     {.activation = relu, .bias_initializer = initializers::constant(-0.05)});
          const Layer pooling = MaxPooling2D();
          const Tensor x = numbers({5, 9, 12, channels}).to(at::kFloat);
          Tensor values[2], kernels[2], biases[2];
          for (const bool fused : {false, true}) {
            Fixture fixture;
            const Tensor y = fused ? Sequential({conv, pooling})(x, fixture.context)
                                   : pooling(conv(x, fixture.context), fixture.context);
            (y * numbers(y.sizes(), 0.9).to(at::kFloat)).sum().backward();
            values[fused] = y.detach();
            kernels[fused] = fixture.store.value("conv2d/kernel").grad();
            biases[fused] = fixture.store.value("conv2d/bias").grad();
            torch::NoGradGuard no_grad;
            EXPECT_TRUE(
                torch::equal(Sequential({conv, pooling})(x, fixture.context), values[fused]) ||
                !fused);
          }
          EXPECT_EQ(values[0].sizes(), values[1].sizes());
          EXPECT_TRUE(torch::allclose(values[0], values[1], 1e-5, 1e-5));
          EXPECT_TRUE(torch::allclose(kernels[0], kernels[1], 1e-4, 1e-4));
          EXPECT_TRUE(torch::allclose(biases[0], biases[1], 1e-4, 1e-4));
        }
      }
    }
  }
  at::set_num_threads(threads);
}

// A number that is not one must reach the loss, where training stops; a pooling that prefers
// numbers would hide it.
TEST(Sequential, NotANumberWins) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double odd : {std::nan(""), -std::nan(""), infinity}) {
    for (int64_t place = 0; place < 4; ++place) {
      Fixture fixture;
      const Layer model = Sequential(
          {Conv2D(16, 1, {.activation = relu, .kernel_initializer = initializers::ones()}),
           MaxPooling2D()});
      Tensor x = torch::full({1, 2, 2, 1}, 3.0f);
      x.view(-1)[place] = odd;
      const Tensor y = model(x, fixture.context);
      EXPECT_TRUE(torch::logical_not(torch::isfinite(y)).all().item<bool>()) << odd << place;
      x.view(-1)[place] = -infinity;
      EXPECT_TRUE(model(x, fixture.context).eq(3).all().item<bool>());
    }
  }
}

TEST(Sequential, ZeroRowsGiveZeroGradients) {
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    Fixture fixture;
    fixture.context.begin_step(true, 3, 0);
    const Layer model = Sequential({Conv2D(32, 3, {.activation = relu}), MaxPooling2D(),
                                    Conv2D(4, 3, {.strides = 2, .padding = Padding::kSame}),
                                    Flatten(), Dropout(0.5), Dense(10)});
    const Tensor y = model(torch::zeros({0, 28, 28, 1}, dtype), fixture.context);
    EXPECT_EQ(y.sizes(), (std::vector<int64_t>{0, 10}));
    y.sum().backward();
    ASSERT_EQ(fixture.store.variables().size(), 6u);
    for (const auto& variable : fixture.store.variables()) {
      ASSERT_TRUE(variable->value().grad().defined()) << variable->name();
      EXPECT_TRUE(variable->value().grad().eq(0).all().item<bool>()) << variable->name();
    }
  }
}

TEST(Names, AreThoseOfKeras) {
  Fixture fixture;
  const Layer model = Sequential(
      {Conv2D(2, 3), MaxPooling2D(), Conv2D(2, 3, {.padding = Padding::kSame}),
       Sequential({Flatten(), Dense(3), Dropout(0.5)}), Dense(2, {.name = "logits"}), Dense(1)});
  const std::string scope_name = "cnn";
  {
    CallContext::Scope scope(fixture.context, scope_name);
    model(numbers({1, 8, 8, 1}), fixture.context);
    model(numbers({1, 8, 8, 1}), fixture.context);
  }
  EXPECT_EQ(fixture.store.names(),
            (std::vector<std::string>{"cnn/conv2d/kernel", "cnn/conv2d/bias", "cnn/conv2d_1/kernel",
                                      "cnn/conv2d_1/bias", "cnn/dense/kernel", "cnn/dense/bias",
                                      "cnn/logits/kernel", "cnn/logits/bias", "cnn/dense_1/kernel",
                                      "cnn/dense_1/bias"}));
  // Another scope counts for itself; without one there is no prefix.
  const std::string other = "head";
  {
    CallContext::Scope scope(fixture.context, other);
    Dense(1)(numbers({1, 2}), fixture.context);
  }
  Dense(1)(numbers({1, 2}), fixture.context);
  EXPECT_NE(fixture.store.find("head/dense/kernel"), nullptr);
  EXPECT_NE(fixture.store.find("dense/kernel"), nullptr);
  EXPECT_EQ(message_of([&] {
              Dense(1, {.name = "same"})(numbers({1, 2}), fixture.context);
              Dense(1, {.name = "same"})(numbers({1, 2}), fixture.context);
            }),
            "two layers are named \"same\"");
  message_of([] { Dense(1, {.name = "a/b"}); });
}

TEST(Layer, SharesWeightsWithinAContextAndNothingBetweenContexts) {
  const Layer layer = Dense(3);
  const Layer copy = layer;
  Fixture train, eval;
  layer(numbers({2, 4}), train.context);
  copy(numbers({2, 4}), train.context);
  EXPECT_EQ(train.store.variables().size(), 2u);
  layer(numbers({2, 4}), eval.context);
  EXPECT_EQ(eval.store.variables().size(), 2u);
  EXPECT_NE(train.store.value("dense/kernel").data_ptr(),
            eval.store.value("dense/kernel").data_ptr());
}

TEST(Layer, SeesAVariableThatWasMoved) {
  Fixture fixture;
  const Layer layer = Dense(2, {.use_bias = false});
  layer(numbers({1, 3}), fixture.context);
  fixture.store.find("dense/kernel")->value() = torch::ones({3, 2}, at::kDouble);
  const Tensor x = torch::tensor({{1.0, 2.0, 4.0}}, at::kDouble);
  EXPECT_TRUE(torch::equal(layer(x, fixture.context), torch::full({1, 2}, 7.0, at::kDouble)));
}

TEST(Dropout, KeepsAboutTheRateAndScalesTheRest) {
  Fixture fixture;
  const Tensor x = torch::ones({200, 500});
  const Layer layer = Dropout(0.3);
  EXPECT_TRUE(layer(x, fixture.context).is_same(x)) << "outside training it does nothing";
  fixture.context.begin_step(true, 0, 0);
  const Tensor y = layer(x, fixture.context);
  const double dropped = y.eq(0).to(at::kDouble).mean().item<double>();
  EXPECT_NEAR(dropped, 0.3, 0.006);  // four standard deviations of 100,000 draws
  EXPECT_TRUE(torch::logical_or(y.eq(0), y.eq(static_cast<float>(1 / 0.7))).all().item<bool>());
  EXPECT_TRUE(Dropout(0)(x, fixture.context).is_same(x));
}

TEST(Dropout, MaskIsAFunctionOfSeedStepReplicaAndLayer) {
  const Tensor x = torch::ones({40, 40});
  const auto mask = [&](uint64_t seed, int64_t step, int64_t replica, int layer, int use) {
    TestStore store;
    CallContext context(store, seed);
    const Layer layers[2] = {Dropout(0.5), Dropout(0.5)};
    context.begin_step(true, 77, 0);  // an earlier step leaves no trace
    for (const Layer& each : layers) each(x, context);
    context.begin_step(true, step, replica);
    Tensor y;
    for (int i = 0; i <= use; ++i) y = layers[layer](x, context);
    return y;
  };
  const Tensor base = mask(1, 5, 0, 0, 0);
  EXPECT_TRUE(torch::equal(base, mask(1, 5, 0, 0, 0)));
  EXPECT_FALSE(torch::equal(base, mask(2, 5, 0, 0, 0)));
  EXPECT_FALSE(torch::equal(base, mask(1, 6, 0, 0, 0)));
  EXPECT_FALSE(torch::equal(base, mask(1, 5, 1, 0, 0)));
  EXPECT_FALSE(torch::equal(base, mask(1, 5, 0, 1, 0)));
  EXPECT_FALSE(torch::equal(base, mask(1, 5, 0, 0, 1)));
}

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

TEST(Errors, NameTheLayerAndBothShapes) {
  Fixture fixture;
  const Layer conv = Conv2D(2, 3);
  conv(torch::zeros({1, 5, 5, 3}), fixture.context);
  EXPECT_EQ(message_of([&] {
              conv(torch::zeros({1, 5, 5, 1}), fixture.context);
            }),
            "layer conv2d: expected images [batch, height, width, 3], was given "
            "float32[1, 5, 5, 1]");
  EXPECT_EQ(message_of([&] {
              conv(torch::zeros({1, 5, 5}), fixture.context);
            }),
            "layer conv2d: expected images [batch, height, width, channels], was given "
            "float32[1, 5, 5]");
  const auto hint = [&](at::IntArrayRef shape) {
    return error_of([&] { conv(torch::zeros(shape), fixture.context); }).hint();
  };
  EXPECT_EQ(hint({64, 784}), "reshape it first: reshape({-1, 28, 28, 1})");
  EXPECT_EQ(hint({64, 100, 1}), "add the channels with unsqueeze(-1)");
  EXPECT_EQ(hint({64, 30}), "reshape it first: reshape({-1, height, width, 1})");
  EXPECT_EQ(message_of([&] {
              conv(torch::zeros({1, 2, 5, 3}), fixture.context);
            }),
            "layer conv2d: expected images of at least 3x3, was given float32[1, 2, 5, 3]");
  EXPECT_EQ(message_of([&] {
              conv(torch::zeros({1, 5, 5, 3}, at::kByte), fixture.context);
            }),
            "layer conv2d: expected a float32 or float64 input, was given uint8[1, 5, 5, 3]");
  EXPECT_EQ(message_of([&] {
              conv(torch::zeros({1, 5, 5, 3}, at::kDouble), fixture.context);
            }),
            "layer conv2d: expected the dtype of its variables, float32, was given "
            "float64[1, 5, 5, 3]");
  EXPECT_EQ(message_of([&] { conv(Tensor(), fixture.context); }),
            "layer conv2d: the input is undefined");
  EXPECT_EQ(message_of([&] {
              MaxPooling2D()(torch::zeros({4, 4}), fixture.context);
            }),
            "layer max_pooling2d: expected images [batch, height, width, channels], was given "
            "float32[4, 4]");
  const Layer dense = Dense(2, {.name = "logits"});
  dense(torch::zeros({1, 5}), fixture.context);
  EXPECT_EQ(message_of([&] {
              dense(torch::zeros({1, 6}), fixture.context);
            }),
            "layer logits: expected [..., 5], was given float32[1, 6]");
  EXPECT_EQ(message_of([&] { dense(torch::zeros({5}), fixture.context); }),
            "layer logits: expected [batch, features], was given float32[5]");
  EXPECT_EQ(message_of([] { Conv2D(0, 3); }), "Conv2D: filters is 0");
  EXPECT_EQ(message_of([] { Conv2D(1, {3, -1}); }), "Conv2D: kernel_size is -1");
  EXPECT_EQ(message_of([] { MaxPooling2D({.pool_size = 0}); }), "MaxPooling2D: pool_size is 0");
  EXPECT_EQ(message_of([] { Dense(-4); }), "Dense: units is -4");
  EXPECT_EQ(message_of([] { Dropout(1.0); }), "Dropout: rate is 1");
}

}  // namespace
}  // namespace muster::inline v0_1
