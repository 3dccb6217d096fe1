// Conv2DTranspose, which convolution.h declares.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "muster/base/error.h"
#include "muster/layers/convolution.h"
#include "muster/layers/internal/bfloat16.h"
#include "muster/layers/internal/checks.h"
#include "muster/layers/internal/weights.h"
#include "muster/layers/internal/windows.h"
#include "muster/layers/unary_layer.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using internal::Sizes;
using internal::Window;

// Which part of the whole transpose, (size - 1) * stride + span elements, is the result.
struct Part {
  int64_t before = 0;  // elements that are cut off in front
  int64_t length = 0;  // of the result; elements after the whole transpose are 0
  int64_t beyond = 0;  // how many elements of the result do
};

class Conv2DTransposeImpl final : public UnaryLayerImpl {
 public:
  Conv2DTransposeImpl(int64_t filters, Window window, Conv2DTransposeOptions options)
      : UnaryLayerImpl("conv2d_transpose", options.name),
        filters_(filters),
        window_(std::move(window)),
        options_(std::move(options)) {
    if (options_.output_padding) output_padding_ = internal::sizes_of(*options_.output_padding);
  }

  Tensor call(const Tensor& input, CallContext& context) const override {
    internal::check_dtype(context, identity(), input);
    internal::check_rank(context, identity(), input, window_.rank());
    const Tensor kernel = internal::weight(
        context, identity(), 0, "kernel",
        {window_.sizes[0], window_.sizes[1], filters_, input.size(-1)}, input,
        options_.kernel_initializer, options_.kernel_regularizer, options_.kernel_constraint);
    internal::check_channels(context, identity(), input, 2, kernel.size(-1));
    Tensor bias;
    if (options_.use_bias) {
      bias = internal::weight(context, identity(), 1, "bias", {filters_}, input,
                              options_.bias_initializer, options_.bias_regularizer,
                              options_.bias_constraint);
    }
    const Part rows = part(0, input.size(1)), columns = part(1, input.size(2));
    const Sizes cut{rows.before, columns.before}, beyond{rows.beyond, columns.beyond};
    // Kernel [height, width, filters, in] becomes LibTorch's [in, filters, height, width].
    const auto product = [&](const Tensor& x, const Tensor& w, const Tensor& b) {
      return at::convolution(x, w, b, window_.strides, cut, window_.dilation, /*transposed=*/true,
                             beyond, /*groups=*/1);
    };
    const Tensor whole = internal::multiplied(
        internal::ProductKind::kTransposedConvolution, /*multiplications=*/0, product,
        internal::to_channels_first(input), kernel.permute({3, 2, 0, 1}).contiguous(), bias);
    // LibTorch cuts the same number off at the end as at the front, TensorFlow may cut off one
    // more.
    Tensor output = internal::activated(
        options_.activation,
        internal::to_channels_last(whole.slice(2, 0, rows.length).slice(3, 0, columns.length)));
    context.add_activity_loss(options_.activity_regularizer, output);
    return output;
  }

  LayerPrecision precision() const override { return LayerPrecision::kBfloat16; }

 private:
  Part part(size_t axis, int64_t size) const {
    const int64_t stride = window_.strides[axis], span = window_.span(axis);
    const bool same = window_.padding == Padding::kSame;
    const int64_t whole = (size - 1) * stride + span;
    int64_t length = size * stride + (same ? 0 : std::max<int64_t>(span - stride, 0));
    if (!output_padding_.empty()) {
      length = whole - (same ? 2 * (span / 2) : 0) + output_padding_[axis];
    }
    // The convolution that is transposed pads as much as `same` does, half of it in front.
    const int64_t padding = same ? std::max<int64_t>(whole - length, 0) : 0;
    return {padding / 2, length, std::max<int64_t>(length - whole, 0)};
  }

  int64_t filters_;
  Window window_;
  Conv2DTransposeOptions options_;
  Sizes output_padding_;
};

void check_output_padding(const Conv2DTransposeOptions& options, const Window& window) {
  if (!options.output_padding) return;
  const Sizes padding = internal::sizes_of(*options.output_padding);
  for (size_t axis = 0; axis < padding.size(); ++axis) {
    const bool same = window.padding == Padding::kSame;
    // With an even kernel and `same` padding, 0 would make the result too small by one window.
    const int64_t least = same && window.span(axis) % 2 == 0 ? 1 : 0;
    if (padding[axis] >= least && padding[axis] < window.strides[axis]) continue;
    throw invalid_argument(
        fmt::format("{}: output_padding is {}, and strides {}",
                    internal::titled("Conv2DTranspose", options.name), padding[axis],
                    window.strides[axis]),
        fmt::format("output_padding must be at least {} and below strides", least));
  }
}

}  // namespace

Layer Conv2DTranspose(int64_t filters, Size2D kernel_size, Conv2DTransposeOptions options) {
  Window window{internal::sizes_of(kernel_size), internal::sizes_of(options.strides),
                internal::sizes_of(options.dilation_rate), options.padding};
  internal::check_positive(internal::titled("Conv2DTranspose", options.name), "filters", filters);
  internal::check_window(internal::titled("Conv2DTranspose", options.name), "kernel_size", window,
                         /*may_be_causal=*/false);
  check_output_padding(options, window);
  return Layer(
      std::make_shared<Conv2DTransposeImpl>(filters, std::move(window), std::move(options)));
}

}  // namespace muster::inline v0_1
