#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>

#include <cmath>
#include <limits>

#include "muster/layers/convolution.h"
#include "muster/layers/dense.h"
#include "muster/layers/dropout.h"
#include "muster/layers/internal/conv_pool_kernels.h"
#include "muster/layers/internal/test_layers.h"
#include "muster/layers/pooling.h"
#include "muster/layers/reshape.h"
#include "muster/layers/sequential.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using testing::Fixture;
using testing::numbers;

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
                                       .activation = activations::relu,
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
          const Layer conv = Conv2D(
              filters, kernel,
              {.activation = activations::relu, .bias_initializer = initializers::constant(-0.05)});
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

// Which convolutions it is; the others are run by LibTorch, relu after the pooling or not.
TEST(Sequential, RunsInOnePassWhatItCan) {
  const auto runs_in_one_pass = [](const Layer& conv) {
    Fixture fixture;
    const Tensor x = numbers({2, 8, 9, 4}).to(at::kFloat);
    const Tensor y = Sequential({conv, MaxPooling2D()})(x, fixture.context);
    const Tensor apart = MaxPooling2D()(conv(x, fixture.context), fixture.context);
    EXPECT_TRUE(torch::allclose(y, apart, 1e-5, 1e-5));
    return y.grad_fn()->name().find("ConvReluPool") != std::string::npos;
  };
  const auto relu = activations::relu;
  EXPECT_TRUE(runs_in_one_pass(Conv2D(16, 2, {.activation = relu})));
  EXPECT_TRUE(runs_in_one_pass(Conv2D(16, 2, {.activation = activation("relu")})));
  EXPECT_FALSE(runs_in_one_pass(Conv2D(16, 2, {.activation = activations::relu6})));
  EXPECT_FALSE(runs_in_one_pass(Conv2D(16, 2, {.activation = activations::leaky_relu})));
  EXPECT_FALSE(runs_in_one_pass(Conv2D(16, 2, {.dilation_rate = 2, .activation = relu})));
  EXPECT_FALSE(runs_in_one_pass(Conv2D(16, 2, {.groups = 2, .activation = relu})));
  EXPECT_FALSE(runs_in_one_pass(Conv2D(16, 2, {.strides = 2, .activation = relu})));
}

// A number that is not one must reach the loss, where training stops; a pooling that prefers
// numbers would hide it.
TEST(Sequential, NotANumberWins) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double odd : {std::nan(""), -std::nan(""), infinity}) {
    for (int64_t place = 0; place < 4; ++place) {
      Fixture fixture;
      const Layer model = Sequential(
          {Conv2D(16, 1,
                  {.activation = activations::relu, .kernel_initializer = initializers::ones()}),
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

// A batch that does not fit into the cache is read ahead: its gradients have the bits of those that
// its halves, which do fit, add up.
TEST(ConvPool, GradientsOfALargeBatchAreThoseOfItsHalves) {
  const internal::ConvPool shape{28, 28, 1, 3, 3, 32};
  constexpr int64_t kImages = 128;
  const Tensor x = torch::randn({kImages, shape.input_size()});
  const Tensor kernel = torch::randn({shape.taps(), shape.filters});
  const Tensor bias = torch::randn({shape.filters});
  const Tensor dy = torch::randn({kImages, shape.output_size()});
  const Tensor y = torch::empty_like(dy), choice = torch::empty(dy.sizes(), at::kInt);
  internal::conv_pool_forward(shape, kImages, x.data_ptr<float>(), kernel.data_ptr<float>(),
                              bias.data_ptr<float>(), y.data_ptr<float>(),
                              choice.data_ptr<int32_t>());
  const auto gradients = [&](int64_t part) {
    const Tensor kernels = torch::zeros_like(kernel), biases = torch::zeros_like(bias);
    for (int64_t begin = 0; begin < kImages; begin += part) {
      internal::conv_pool_backward(shape, part, x[begin].data_ptr<float>(),
                                   dy[begin].data_ptr<float>(), choice[begin].data_ptr<int32_t>(),
                                   kernels.data_ptr<float>(), biases.data_ptr<float>());
    }
    return torch::cat({kernels.flatten(), biases});
  };
  EXPECT_TRUE(torch::equal(gradients(kImages), gradients(kImages / 2)));
  EXPECT_TRUE(gradients(kImages).ne(0).all().item<bool>());
}

TEST(Sequential, ZeroRowsGiveZeroGradients) {
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    Fixture fixture;
    fixture.context.begin_step(true, 3, 0);
    const Layer model =
        Sequential({Conv2D(32, 3, {.activation = activations::relu}), MaxPooling2D(),
                    Conv2D(4, 3, {.strides = 2, .padding = Padding::kSame}), Flatten(),
                    Dropout(0.5), Dense(10)});
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

}  // namespace
}  // namespace muster::inline v0_1
