#include "muster/layers/pooling.h"

#include <ATen/TracerMode.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "muster/layers/internal/checks.h"
#include "muster/layers/internal/image_layers.h"
#include "muster/layers/internal/wide.h"
#include "muster/layers/internal/windows.h"
#include "muster/layers/unary_layer.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/tracing.h"

namespace muster::inline v0_1 {
namespace {

using internal::Pads;
using internal::Sizes;
using internal::Window;

Tensor max_pool(const Tensor& images, const Window& window, const Sizes& padding) {
  if (window.rank() == 3) {
    return internal::in_float32(images, [&](const Tensor& x) {
      return at::max_pool3d(x, window.sizes, window.strides, padding);
    });
  }
  if (window.rank() == 2) return at::max_pool2d(images, window.sizes, window.strides, padding);
  return at::max_pool2d(images.unsqueeze(2), {1, window.sizes[0]}, {1, window.strides[0]},
                        {0, padding[0]})
      .squeeze(2);
}

// Sums up each window of `images` (channels first).
Tensor sum_pool(const Tensor& images, const Window& window, const Sizes& padding) {
  if (window.rank() == 3) {
    return internal::in_float32(images, [&](const Tensor& x) {
      return at::avg_pool3d(x, window.sizes, window.strides, padding, /*ceil_mode=*/false,
                            /*count_include_pad=*/true, /*divisor_override=*/1);
    });
  }
  if (window.rank() == 2) {
    return at::avg_pool2d(images, window.sizes, window.strides, padding, /*ceil_mode=*/false,
                          /*count_include_pad=*/true, /*divisor_override=*/1);
  }
  return at::avg_pool2d(images.unsqueeze(2), {1, window.sizes[0]}, {1, window.strides[0]},
                        {0, padding[0]}, /*ceil_mode=*/false, /*count_include_pad=*/true,
                        /*divisor_override=*/1)
      .squeeze(2);
}

// Returns how many elements of an axis each window sees, in the form [outputs, 1...] that meets the
// axis of `sums` (channels first).
Tensor counts_of(const Window& window, size_t axis, const Pads& pads, int64_t size,
                 const Tensor& sums) {
  const auto place = static_cast<int64_t>(axis) + 2;
  const int64_t outputs = sums.size(place);
  Tensor counts = at::empty({outputs}, kFloat64);
  for (int64_t i = 0; i < outputs; ++i) {
    const int64_t begin = i * window.strides[axis] - pads.before;
    counts.data_ptr<double>()[i] = static_cast<double>(std::min(begin + window.sizes[axis], size) -
                                                       std::max<int64_t>(begin, 0));
  }
  Shape shape(static_cast<size_t>(sums.dim() - place), 1);
  shape[0] = outputs;
  return counts.reshape(shape).to(sums.options().requires_grad(false));
}

class AveragePoolingImpl final : public UnaryLayerImpl {
 public:
  AveragePoolingImpl(const char* class_name, Window window, std::string name)
      : UnaryLayerImpl(class_name, std::move(name)), window_(std::move(window)) {}

  Tensor call(const Tensor& input, CallContext& context) const override {
    internal::check_floating(context, identity(), input);
    internal::check_windowed(context, identity(), input, window_);
    Tensor images = internal::to_channels_first(input);
    const std::vector<Pads> pads = internal::pads_of(window_, images);
    // An exported model counts for itself: it may be given other sizes.
    Tensor ones;
    if (is_tracing() && window_.padding == Padding::kSame) {
      Shape shape = images.sizes().vec();
      shape[0] = shape[1] = 1;
      ones = at::ones(shape, images.options());
    }
    const Sizes padding = internal::pad(images, window_, 0);
    Tensor means = sum_pool(images, window_, padding);
    if (ones.defined()) {
      (void)internal::pad(ones, window_, 0);
      return internal::to_channels_last(means / sum_pool(ones, window_, padding));
    }
    for (size_t axis = 0; axis < window_.rank(); ++axis) {
      const int64_t size = input.size(static_cast<int64_t>(axis) + 1);
      means = pads[axis].before + pads[axis].after == 0
                  ? means / static_cast<double>(window_.sizes[axis])
                  : means / counts_of(window_, axis, pads[axis], size, means);
    }
    return internal::to_channels_last(means);
  }

  LayerPrecision precision() const override { return LayerPrecision::kAsGiven; }

 private:
  Window window_;
};

class GlobalPoolingImpl final : public LayerImpl {
 public:
  GlobalPoolingImpl(const char* class_name, size_t rank, bool largest, GlobalPoolingOptions options)
      : LayerImpl(class_name, std::move(options.name)),
        rank_(rank),
        largest_(largest),
        keepdims_(options.keepdims) {
    for (size_t i = 1; i <= rank; ++i) axes_.push_back(static_cast<int64_t>(i));
  }

  LayerOutputs call(const LayerInputs& inputs, CallContext& context) const override {
    const bool takes_mask = !largest_ && rank_ == 1;
    const Tensor& input = internal::single_tensor(context, identity(), inputs, takes_mask);
    internal::check_floating(context, identity(), input);
    internal::check_rank(context, identity(), input, rank_);
    if (!inputs.masks.empty() && inputs.masks[0].defined()) {
      return {.tensors = {masked_mean(input, inputs.masks[0], context)}};
    }
    return {.tensors = {largest_ ? input.amax(axes_, keepdims_) : input.mean(axes_, keepdims_)}};
  }

  LayerPrecision precision() const override { return LayerPrecision::kAsGiven; }

 private:
  Tensor masked_mean(const Tensor& input, const Tensor& mask, CallContext& context) const {
    if (mask.dim() != 2) internal::refuse_input(context, identity(), "a mask [batch, steps]", mask);
    const Tensor weights = mask.unsqueeze(-1).to(input.scalar_type());
    return (input * weights).sum(axes_, keepdims_) / weights.sum(axes_, keepdims_);
  }

  size_t rank_;
  bool largest_;
  bool keepdims_;
  Sizes axes_;
};

// Makes the window of a pooling, and checks it.
template <typename Options>
Window pooling_window(const char* layer, const Options& options) {
  Window window{internal::sizes_of(options.pool_size),
                internal::sizes_of(options.strides.value_or(options.pool_size)),
                {},
                options.padding};
  window.dilation.assign(window.rank(), 1);
  internal::check_window(internal::titled(layer, options.name), "pool_size", window,
                         /*may_be_causal=*/false);
  return window;
}

template <typename Impl, typename Options>
Layer pooling(const char* layer, const char* class_name, Options options) {
  return Layer(
      std::make_shared<Impl>(class_name, pooling_window(layer, options), std::move(options.name)));
}

Layer global_pooling(const char* class_name, size_t rank, bool largest,
                     GlobalPoolingOptions options) {
  return Layer(std::make_shared<GlobalPoolingImpl>(class_name, rank, largest, std::move(options)));
}

}  // namespace

namespace internal {

Tensor MaxPoolingImpl::call(const Tensor& input, CallContext& context) const {
  check_floating(context, identity(), input);
  check_windowed(context, identity(), input, window_);
  Tensor images = to_channels_first(input);
  const Sizes padding = pad(images, window_, -std::numeric_limits<double>::infinity());
  return to_channels_last(max_pool(images, window_, padding));
}

Tensor MaxPoolingImpl::call_with_zeros(const Tensor& input, const ZeroPaddingImpl& zeros,
                                       CallContext& context) const {
  context.name_of(zeros.identity());
  context.name_of(identity());
  bool fits = input.dim() == static_cast<int64_t>(window_.rank()) + 2 && input.numel() > 0 &&
              input.is_floating_point() && input.is_cpu() && !torch::jit::tracer::isTracing();
  for (size_t i = 0; fits && i < window_.rank(); ++i) {
    const int64_t padded = input.size(static_cast<int64_t>(i) + 1) + 2 * zeros.margins()[i].before;
    fits = padded >= window_.sizes[i];
  }
  if (fits) {
    // LibTorch leaves places outside of the image out of a window. If nothing is below 0, zeros
    // would not win either; this saves a copy of the images.
    Sizes margins;
    for (const Pads& margin : zeros.margins()) margins.push_back(margin.before);
    const Tensor pooled = max_pool(to_channels_first(input), window_, margins);
    if (pooled.detach().min().item<double>() >= 0) return to_channels_last(pooled);
  }
  return call(zeros.call(input, context), context);
}

}  // namespace internal

Layer MaxPooling1D(Pooling1DOptions options) {
  return pooling<internal::MaxPoolingImpl>("MaxPooling1D", "max_pooling1d", std::move(options));
}
Layer MaxPooling2D(Pooling2DOptions options) {
  return pooling<internal::MaxPoolingImpl>("MaxPooling2D", "max_pooling2d", std::move(options));
}
Layer MaxPooling3D(Pooling3DOptions options) {
  return pooling<internal::MaxPoolingImpl>("MaxPooling3D", "max_pooling3d", std::move(options));
}

Layer AveragePooling1D(Pooling1DOptions options) {
  return pooling<AveragePoolingImpl>("AveragePooling1D", "average_pooling1d", std::move(options));
}
Layer AveragePooling2D(Pooling2DOptions options) {
  return pooling<AveragePoolingImpl>("AveragePooling2D", "average_pooling2d", std::move(options));
}
Layer AveragePooling3D(Pooling3DOptions options) {
  return pooling<AveragePoolingImpl>("AveragePooling3D", "average_pooling3d", std::move(options));
}

Layer GlobalMaxPooling1D(GlobalPoolingOptions options) {
  return global_pooling("global_max_pooling1d", 1, /*largest=*/true, std::move(options));
}
Layer GlobalMaxPooling2D(GlobalPoolingOptions options) {
  return global_pooling("global_max_pooling2d", 2, /*largest=*/true, std::move(options));
}
Layer GlobalMaxPooling3D(GlobalPoolingOptions options) {
  return global_pooling("global_max_pooling3d", 3, /*largest=*/true, std::move(options));
}

Layer GlobalAveragePooling1D(GlobalPoolingOptions options) {
  return global_pooling("global_average_pooling1d", 1, /*largest=*/false, std::move(options));
}
Layer GlobalAveragePooling2D(GlobalPoolingOptions options) {
  return global_pooling("global_average_pooling2d", 2, /*largest=*/false, std::move(options));
}
Layer GlobalAveragePooling3D(GlobalPoolingOptions options) {
  return global_pooling("global_average_pooling3d", 3, /*largest=*/false, std::move(options));
}

}  // namespace muster::inline v0_1
