// relu(max_pool(conv(images))) in one pass, for the first layer of image models: few channels, no
// gradient for the images. The convolution's output, the largest tensor of such a model, never
// exists in memory. Thread safety: pure functions of the memory they are given; built without
// LibTorch.
#pragma once

#include <cstdint>

namespace muster::inline v0_1::internal {

// Stride 1 and valid padding for the convolution; windows of 2x2 and valid padding for the pooling.
struct ConvPool {
  int64_t height{}, width{}, channels{};
  int64_t kernel_height{}, kernel_width{};
  int64_t filters{};  // a multiple of kFilterMultiple

  static constexpr int64_t kFilterMultiple = 16;
  static constexpr int32_t kNone = 4;  // the choice where relu is shut: no gradient

  int64_t taps() const { return kernel_height * kernel_width * channels; }
  int64_t output_height() const { return (height - kernel_height + 1) / 2; }
  int64_t output_width() const { return (width - kernel_width + 1) / 2; }
  int64_t input_size() const { return height * width * channels; }
  int64_t output_size() const { return output_height() * output_width() * filters; }
};

// `images` of [n, height, width, channels], kernel [kernel_height, kernel_width, channels,
// filters], bias [filters]; output [n, output_height, output_width, filters]. `choice` (of the
// output's shape, may be null) takes which of the four corners won (row-major; the first of
// equals), or kNone, as whole integers: bytes cost more to convert than to move. NaN wins.
void conv_pool_forward(const ConvPool& shape, int64_t n, const float* images, const float* kernel,
                       const float* bias, float* output, int32_t* choice);

// Adds the gradients of kernel and bias to `kernel_gradient` and `bias_gradient`.
void conv_pool_backward(const ConvPool& shape, int64_t n, const float* images,
                        const float* output_gradient, const int32_t* choice, float* kernel_gradient,
                        float* bias_gradient);

}  // namespace muster::inline v0_1::internal
