#include "muster/layers/convolution.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "muster/base/error.h"
#include "muster/layers/internal/checks.h"
#include "muster/layers/internal/image_layers.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace internal {
namespace {

// Shows [batch, height, width, channels] as LibTorch's [batch, channels, height, width] without a
// copy. Contiguous images get true channels-last strides, also those of one channel, where
// `.to(channels_last)` would leave the slow strides.
Tensor to_channels_first(const Tensor& images) {
  return (images.is_contiguous() ? images : images.contiguous()).permute({0, 3, 1, 2});
}
Tensor to_channels_last(const Tensor& images) { return images.permute({0, 2, 3, 1}); }

struct Pads {
  int64_t before = 0;
  int64_t after = 0;
};

Pads pads_of(Padding padding, int64_t size, int64_t window, int64_t stride) {
  if (padding == Padding::kValid) return {};
  const int64_t outputs = (size + stride - 1) / stride;
  const int64_t total = std::max<int64_t>((outputs - 1) * stride + window - size, 0);
  return {total / 2, total - total / 2};
}

struct Pads2D {
  Pads height;
  Pads width;
  bool symmetric() const { return height.before == height.after && width.before == width.after; }
};

Pads2D pads_of(Padding padding, const Tensor& images, Size2D window, Size2D strides) {
  return {pads_of(padding, images.size(1), window.height, strides.height),
          pads_of(padding, images.size(2), window.width, strides.width)};
}

// `images` is channels first.
Tensor pad(const Tensor& images, const Pads2D& pads, double value) {
  return at::constant_pad_nd(
      images, {pads.width.before, pads.width.after, pads.height.before, pads.height.after}, value);
}

// Says how a tensor that holds no images becomes one that does.
std::string how_to_make_images(const Tensor& input) {
  if (input.dim() == 3) return "add the channels with unsqueeze(-1)";
  if (input.dim() != 2) return "";
  // Flat images are most often square, of one channel.
  const auto side = static_cast<int64_t>(std::lround(std::sqrt(input.size(1))));
  const bool square = side > 1 && side * side == input.size(1);
  return fmt::format("reshape it first: reshape({{-1, {}, 1}})",
                     square ? fmt::format("{0}, {0}", side) : "height, width");
}

void check_images(CallContext& context, const LayerIdentity& layer, const Tensor& input,
                  Size2D window, Padding padding) {
  check_dtype(context, layer, input);
  if (input.dim() != 4) {
    refuse_input(context, layer, "images [batch, height, width, channels]", input,
                 how_to_make_images(input));
  }
  if (input.size(1) < 1 || input.size(2) < 1 ||
      (padding == Padding::kValid &&
       (input.size(1) < window.height || input.size(2) < window.width))) {
    refuse_input(
        context, layer,
        fmt::format("images of at least {}x{}", padding == Padding::kValid ? window.height : 1,
                    padding == Padding::kValid ? window.width : 1),
        input);
  }
}

}  // namespace

Conv2DImpl::Conv2DImpl(int64_t filters, Size2D kernel_size, Conv2DOptions options)
    : UnaryLayerImpl("conv2d", options.name),
      filters_(filters),
      kernel_size_(kernel_size),
      options_(std::move(options)) {}

Conv2DImpl::Variables Conv2DImpl::variables(const Tensor& input, CallContext& context) const {
  check_images(context, identity(), input, kernel_size_, options_.padding);
  const Tensor& kernel = context.variable(identity(), 0, [this, &input] {
    return VariableSpec{.name = "kernel",
                        .shape = {kernel_size_.height, kernel_size_.width, input.size(3), filters_},
                        .dtype = input.scalar_type(),
                        .initializer = options_.kernel_initializer};
  });
  check_same_dtype(context, identity(), input, kernel);
  if (input.size(3) != kernel.size(2)) {
    refuse_input(context, identity(),
                 fmt::format("images [batch, height, width, {}]", kernel.size(2)), input,
                 "a layer is called with as many channels as at its first call");
  }
  Tensor bias;
  if (options_.use_bias) {
    bias = context.variable(identity(), 1, [this, &input] {
      return VariableSpec{.name = "bias",
                          .shape = {filters_},
                          .dtype = input.scalar_type(),
                          .initializer = options_.bias_initializer};
    });
  }
  return {kernel, bias};
}

Tensor Conv2DImpl::call_without_activation(const Tensor& input, CallContext& context) const {
  const auto [kernel, bias] = variables(input, context);
  Tensor images = to_channels_first(input);
  Pads2D pads = pads_of(options_.padding, input, kernel_size_, options_.strides);
  if (!pads.symmetric()) {
    images = pad(images, pads, 0);
    pads = {};
  }
  Tensor weight = kernel.permute({3, 2, 0, 1});
  // LibTorch flattens the weights of an empty batch with a view.
  if (images.size(0) == 0) weight = weight.contiguous();
  const Tensor output =
      at::conv2d(images, weight, bias, {options_.strides.height, options_.strides.width},
                 at::IntArrayRef{pads.height.before, pads.width.before});
  return to_channels_last(output);
}

Tensor Conv2DImpl::call(const Tensor& input, CallContext& context) const {
  return activations::apply(options_.activation, call_without_activation(input, context));
}

MaxPooling2DImpl::MaxPooling2DImpl(MaxPooling2DOptions options)
    : UnaryLayerImpl("max_pooling2d", options.name),
      options_(std::move(options)),
      strides_(options_.strides.value_or(options_.pool_size)) {}

Tensor MaxPooling2DImpl::call(const Tensor& input, CallContext& context) const {
  context.name_of(identity());
  const Size2D window = options_.pool_size;
  check_images(context, identity(), input, window, options_.padding);
  Tensor images = to_channels_first(input);
  Pads2D pads = pads_of(options_.padding, input, window, strides_);
  if (!pads.symmetric()) {
    images = pad(images, pads, -std::numeric_limits<double>::infinity());
    pads = {};
  }
  return to_channels_last(at::max_pool2d(images, {window.height, window.width},
                                         {strides_.height, strides_.width},
                                         {pads.height.before, pads.width.before}));
}

}  // namespace internal

Layer Conv2D(int64_t filters, Size2D kernel_size, Conv2DOptions options) {
  internal::check_positive("Conv2D", "filters", filters);
  internal::check_positive("Conv2D", "kernel_size",
                           std::min(kernel_size.height, kernel_size.width));
  internal::check_positive("Conv2D", "strides",
                           std::min(options.strides.height, options.strides.width));
  return Layer(std::make_shared<internal::Conv2DImpl>(filters, kernel_size, std::move(options)));
}

Layer MaxPooling2D(MaxPooling2DOptions options) {
  internal::check_positive("MaxPooling2D", "pool_size",
                           std::min(options.pool_size.height, options.pool_size.width));
  if (options.strides) {
    internal::check_positive("MaxPooling2D", "strides",
                             std::min(options.strides->height, options.strides->width));
  }
  return Layer(std::make_shared<internal::MaxPooling2DImpl>(std::move(options)));
}

}  // namespace muster::inline v0_1
