#include "muster/layers/padding.h"

#include <fmt/format.h>

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "muster/layers/internal/bfloat16.h"
#include "muster/layers/internal/checks.h"
#include "muster/layers/internal/image_layers.h"
#include "muster/layers/unary_layer.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using Margins = std::vector<Margin>;

class CroppingImpl final : public UnaryLayerImpl {
 public:
  CroppingImpl(const char* class_name, Margins margins, std::string name)
      : UnaryLayerImpl(class_name, std::move(name)), margins_(std::move(margins)) {}

  Tensor call(const Tensor& input, CallContext& context) const override {
    internal::check_rank(context, identity(), input, margins_.size());
    Tensor rest = input;
    for (size_t i = 0; i < margins_.size(); ++i) {
      const auto axis = static_cast<int64_t>(i) + 1;
      const Margin& margin = margins_[i];
      if (margin.before + margin.after >= input.size(axis)) {
        internal::refuse_input(
            context, identity(),
            fmt::format("more than {} elements in axis {}", margin.before + margin.after, axis),
            input, "cropping must leave at least one element");
      }
      rest = rest.slice(axis, margin.before, input.size(axis) - margin.after);
    }
    return rest;
  }

  LayerPrecision precision() const override { return LayerPrecision::kAsGiven; }

 private:
  Margins margins_;
};

std::vector<internal::Pads> pads_of(const Margins& margins) {
  std::vector<internal::Pads> pads;
  for (const Margin& margin : margins) pads.push_back({margin.before, margin.after});
  return pads;
}

template <typename Impl>
Layer with_margins(const char* layer, const char* class_name, const char* field, Margins margins,
                   std::string name) {
  const std::string title = internal::titled(layer, name);
  for (const Margin& margin : margins) {
    internal::check_at_least_zero(title, field, static_cast<double>(margin.before));
    internal::check_at_least_zero(title, field, static_cast<double>(margin.after));
  }
  if constexpr (std::is_same_v<Impl, internal::ZeroPaddingImpl>) {
    return Layer(std::make_shared<Impl>(class_name, pads_of(margins), std::move(name)));
  } else {
    return Layer(std::make_shared<Impl>(class_name, std::move(margins), std::move(name)));
  }
}

}  // namespace

namespace internal {

Tensor ZeroPaddingImpl::call(const Tensor& input, CallContext& context) const {
  check_rank(context, identity(), input, margins_.size());
  Sizes pads{0, 0};  // of the channels: LibTorch lists the last axis first
  for (size_t i = margins_.size(); i-- > 0;)
    pads.insert(pads.end(), {margins_[i].before, margins_[i].after});
  return at::constant_pad_nd(input, pads, 0);
}

Sizes margins_of(const ZeroPaddingImpl& pad) {
  Sizes margins;
  for (const Pads& margin : pad.margins()) margins.push_back(margin.before);
  return margins;
}

bool fits_with_margins(const ZeroPaddingImpl& pad, const ConvolutionImpl& conv, const Tensor& input,
                       CallContext& context) {
  const Window& window = conv.spec().window;
  // The layer that pads has its turn with names and errors first.
  check_rank(context, pad.identity(), input, window.rank());
  for (size_t axis = 0; axis < window.rank(); ++axis) {
    if (input.size(static_cast<int64_t>(axis) + 1) < window.span(axis)) return false;
  }
  return true;
}

Tensor pad_conv(const ZeroPaddingImpl& pad, const ConvolutionImpl& conv, const Tensor& input,
                CallContext& context) {
  const bool fits = fits_with_margins(pad, conv, input, context);
  const Tensor images = context.mixed_precision() ? narrowed(input) : input;
  return fits ? conv.call_with_margins(images, margins_of(pad), context)
              : conv.call(pad.call(images, context), context);
}

}  // namespace internal

Layer ZeroPadding1D(Margin padding, std::string name) {
  return with_margins<internal::ZeroPaddingImpl>("ZeroPadding1D", "zero_padding1d", "padding",
                                                 {padding}, std::move(name));
}
Layer ZeroPadding2D(Margins2D padding, std::string name) {
  return with_margins<internal::ZeroPaddingImpl>("ZeroPadding2D", "zero_padding2d", "padding",
                                                 {padding.height, padding.width}, std::move(name));
}
Layer ZeroPadding3D(Margins3D padding, std::string name) {
  return with_margins<internal::ZeroPaddingImpl>("ZeroPadding3D", "zero_padding3d", "padding",
                                                 {padding.depth, padding.height, padding.width},
                                                 std::move(name));
}

Layer Cropping1D(Margin cropping, std::string name) {
  return with_margins<CroppingImpl>("Cropping1D", "cropping1d", "cropping", {cropping},
                                    std::move(name));
}
Layer Cropping2D(Margins2D cropping, std::string name) {
  return with_margins<CroppingImpl>("Cropping2D", "cropping2d", "cropping",
                                    {cropping.height, cropping.width}, std::move(name));
}
Layer Cropping3D(Margins3D cropping, std::string name) {
  return with_margins<CroppingImpl>("Cropping3D", "cropping3d", "cropping",
                                    {cropping.depth, cropping.height, cropping.width},
                                    std::move(name));
}

}  // namespace muster::inline v0_1
