#include "muster/layers/upsampling.h"

#include <memory>
#include <utility>

#include "muster/layers/internal/checks.h"
#include "muster/layers/internal/windows.h"
#include "muster/layers/unary_layer.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

class UpSamplingImpl final : public UnaryLayerImpl {
 public:
  UpSamplingImpl(const char* class_name, internal::Sizes factors, Interpolation interpolation,
                 std::string name)
      : UnaryLayerImpl(class_name, std::move(name)),
        factors_(std::move(factors)),
        interpolation_(interpolation) {}

  Tensor call(const Tensor& input, CallContext& context) const override {
    internal::check_rank(context, identity(), input, factors_.size());
    if (interpolation_ == Interpolation::kNearest) return repeated(input);
    internal::check_floating(context, identity(), input);
    return resize_images(input, input.size(1) * factors_[0], input.size(2) * factors_[1],
                         interpolation_);
  }

  LayerPrecision precision() const override { return LayerPrecision::kAsGiven; }

 private:
  // [batch, n, channels] is shown as [batch, n, factor, channels], and copied as [batch, n *
  // factor, channels].
  Tensor repeated(const Tensor& input) const {
    Shape shown{input.size(0)}, result{input.size(0)};
    Tensor view = input;
    for (size_t i = 0; i < factors_.size(); ++i) {
      const int64_t size = input.size(static_cast<int64_t>(i) + 1);
      view = view.unsqueeze(static_cast<int64_t>(2 * i + 2));
      shown.insert(shown.end(), {size, factors_[i]});
      result.push_back(size * factors_[i]);
    }
    shown.push_back(input.size(-1));
    result.push_back(input.size(-1));
    return view.expand(shown).reshape(result);
  }

  internal::Sizes factors_;
  Interpolation interpolation_;
};

Layer up_sampling(const char* layer, const char* class_name, internal::Sizes factors,
                  Interpolation interpolation, std::string name) {
  for (const int64_t factor : factors)
    internal::check_positive(internal::titled(layer, name), "size", factor);
  return Layer(std::make_shared<UpSamplingImpl>(class_name, std::move(factors), interpolation,
                                                std::move(name)));
}

}  // namespace

Layer UpSampling1D(int64_t size, std::string name) {
  return up_sampling("UpSampling1D", "up_sampling1d", {size}, Interpolation::kNearest,
                     std::move(name));
}

Layer UpSampling2D(UpSampling2DOptions options) {
  return up_sampling("UpSampling2D", "up_sampling2d", internal::sizes_of(options.size),
                     options.interpolation, std::move(options.name));
}

Layer UpSampling3D(Size3D size, std::string name) {
  return up_sampling("UpSampling3D", "up_sampling3d", internal::sizes_of(size),
                     Interpolation::kNearest, std::move(name));
}

}  // namespace muster::inline v0_1
