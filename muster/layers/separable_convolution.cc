// DepthwiseConv2D and SeparableConv2D, which convolution.h declares.
#include <memory>
#include <utility>

#include "muster/layers/convolution.h"
#include "muster/layers/internal/bfloat16.h"
#include "muster/layers/internal/checks.h"
#include "muster/layers/internal/weights.h"
#include "muster/layers/internal/windows.h"
#include "muster/layers/unary_layer.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using internal::Window;

// A convolution of size 1.
Window pointwise() { return {{1, 1}, {1, 1}, {1, 1}, Padding::kValid}; }

// Checks the input, and gives the layer's kernel [height, width, in, multiplier].
template <typename Options>
Tensor depthwise_kernel(CallContext& context, const LayerIdentity& layer, const Tensor& input,
                        const Window& window, const Options& options) {
  internal::check_dtype(context, layer, input);
  internal::check_windowed(context, layer, input, window);
  const Tensor kernel = internal::weight(
      context, layer, 0, "depthwise_kernel",
      {window.sizes[0], window.sizes[1], input.size(-1), options.depth_multiplier}, input,
      options.depthwise_initializer, options.depthwise_regularizer, options.depthwise_constraint);
  internal::check_channels(context, layer, input, 2, kernel.size(2));
  return kernel;
}

// `bias` may be undefined.
Tensor depthwise(const Tensor& input, const Tensor& kernel, const Tensor& bias,
                 const Window& window) {
  const Tensor weight =
      kernel.permute({2, 3, 0, 1})
          .reshape({kernel.size(2) * kernel.size(3), 1, kernel.size(0), kernel.size(1)});
  return internal::convolve(input, weight, bias, window, /*groups=*/kernel.size(2));
}

class DepthwiseConv2DImpl final : public UnaryLayerImpl {
 public:
  DepthwiseConv2DImpl(Window window, DepthwiseConv2DOptions options)
      : UnaryLayerImpl("depthwise_conv2d", options.name),
        window_(std::move(window)),
        options_(std::move(options)) {}

  Tensor call(const Tensor& input, CallContext& context) const override {
    const Tensor kernel = depthwise_kernel(context, identity(), input, window_, options_);
    Tensor bias;
    if (options_.use_bias) {
      bias = internal::weight(context, identity(), 1, "bias", {kernel.size(2) * kernel.size(3)},
                              input, options_.bias_initializer, options_.bias_regularizer,
                              options_.bias_constraint);
    }
    Tensor output =
        internal::activated(options_.activation, depthwise(input, kernel, bias, window_));
    context.add_activity_loss(options_.activity_regularizer, output);
    return output;
  }

  LayerPrecision precision() const override { return LayerPrecision::kBfloat16; }

 private:
  Window window_;
  DepthwiseConv2DOptions options_;
};

class SeparableConv2DImpl final : public UnaryLayerImpl {
 public:
  SeparableConv2DImpl(int64_t filters, Window window, SeparableConv2DOptions options)
      : UnaryLayerImpl("separable_conv2d", options.name),
        filters_(filters),
        window_(std::move(window)),
        options_(std::move(options)) {}

  Tensor call(const Tensor& input, CallContext& context) const override {
    const Tensor kernel = depthwise_kernel(context, identity(), input, window_, options_);
    const Tensor mix = internal::weight(
        context, identity(), 1, "pointwise_kernel",
        {1, 1, kernel.size(2) * kernel.size(3), filters_}, input, options_.pointwise_initializer,
        options_.pointwise_regularizer, options_.pointwise_constraint);
    Tensor bias;
    if (options_.use_bias) {
      bias = internal::weight(context, identity(), 2, "bias", {filters_}, input,
                              options_.bias_initializer, options_.bias_regularizer,
                              options_.bias_constraint);
    }
    const Tensor channels = depthwise(input, kernel, Tensor(), window_);
    Tensor output = internal::activated(
        options_.activation,
        internal::convolve(channels, mix.permute({3, 2, 0, 1}), bias, pointwise(), /*groups=*/1));
    context.add_activity_loss(options_.activity_regularizer, output);
    return output;
  }

  LayerPrecision precision() const override { return LayerPrecision::kBfloat16; }

 private:
  int64_t filters_;
  Window window_;
  SeparableConv2DOptions options_;
};

// Makes the window of a layer, and checks it.
template <typename Options>
Window checked_window(const char* layer, const Size2D& kernel_size, const Options& options) {
  Window window{internal::sizes_of(kernel_size), internal::sizes_of(options.strides),
                internal::sizes_of(options.dilation_rate), options.padding};
  const std::string title = internal::titled(layer, options.name);
  internal::check_positive(title, "depth_multiplier", options.depth_multiplier);
  internal::check_window(title, "kernel_size", window, /*may_be_causal=*/false);
  return window;
}

}  // namespace

Layer DepthwiseConv2D(Size2D kernel_size, DepthwiseConv2DOptions options) {
  Window window = checked_window("DepthwiseConv2D", kernel_size, options);
  return Layer(std::make_shared<DepthwiseConv2DImpl>(std::move(window), std::move(options)));
}

Layer SeparableConv2D(int64_t filters, Size2D kernel_size, SeparableConv2DOptions options) {
  internal::check_positive(internal::titled("SeparableConv2D", options.name), "filters", filters);
  Window window = checked_window("SeparableConv2D", kernel_size, options);
  return Layer(
      std::make_shared<SeparableConv2DImpl>(filters, std::move(window), std::move(options)));
}

}  // namespace muster::inline v0_1
