#include "muster/layers/padding.h"

#include <fmt/format.h>

#include <memory>
#include <utility>
#include <vector>

#include "muster/layers/internal/checks.h"
#include "muster/layers/internal/windows.h"
#include "muster/layers/unary_layer.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using Margins = std::vector<Margin>;

class ZeroPaddingImpl final : public UnaryLayerImpl {
 public:
  ZeroPaddingImpl(const char* class_name, Margins margins, std::string name)
      : UnaryLayerImpl(class_name, std::move(name)), rank_(margins.size()) {
    pads_ = {0, 0};  // of the channels: LibTorch lists the last axis first
    for (size_t i = rank_; i-- > 0;) {
      pads_.insert(pads_.end(), {margins[i].before, margins[i].after});
    }
  }

  Tensor call(const Tensor& input, CallContext& context) const override {
    internal::check_rank(context, identity(), input, rank_);
    return at::constant_pad_nd(input, pads_, 0);
  }

  LayerPrecision precision() const override { return LayerPrecision::kAsGiven; }

 private:
  size_t rank_;
  std::vector<int64_t> pads_;
};

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

template <typename Impl>
Layer with_margins(const char* layer, const char* class_name, const char* field, Margins margins,
                   std::string name) {
  const std::string title = internal::titled(layer, name);
  for (const Margin& margin : margins) {
    internal::check_at_least_zero(title, field, static_cast<double>(margin.before));
    internal::check_at_least_zero(title, field, static_cast<double>(margin.after));
  }
  return Layer(std::make_shared<Impl>(class_name, std::move(margins), std::move(name)));
}

}  // namespace

Layer ZeroPadding1D(Margin padding, std::string name) {
  return with_margins<ZeroPaddingImpl>("ZeroPadding1D", "zero_padding1d", "padding", {padding},
                                       std::move(name));
}
Layer ZeroPadding2D(Margins2D padding, std::string name) {
  return with_margins<ZeroPaddingImpl>("ZeroPadding2D", "zero_padding2d", "padding",
                                       {padding.height, padding.width}, std::move(name));
}
Layer ZeroPadding3D(Margins3D padding, std::string name) {
  return with_margins<ZeroPaddingImpl>("ZeroPadding3D", "zero_padding3d", "padding",
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
