#include "muster/layers/dropout.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "muster/base/error.h"
#include "muster/layers/internal/checks.h"
#include "muster/layers/internal/noise_tensors.h"
#include "muster/layers/unary_layer.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

class DropoutImpl final : public UnaryLayerImpl {
 public:
  DropoutImpl(double rate, DropoutOptions options)
      : UnaryLayerImpl("dropout", std::move(options.name)),
        rate_(rate),
        noise_shape_(std::move(options.noise_shape)) {}

  Tensor call(const Tensor& input, CallContext& context) const override {
    context.name_of(identity());
    if (!context.training() || rate_ == 0) return input;
    internal::check_floating(context, identity(), input);
    return input * internal::drop_mask(input, drawn_shape(input, context),
                                       context.random_key(identity()), rate_,
                                       /*kept=*/1 / (1 - rate_));
  }

  bool keeps_steps() const override { return true; }
  LayerPrecision precision() const override { return LayerPrecision::kWidened; }

 private:
  Shape drawn_shape(const Tensor& input, CallContext& context) const {
    Shape shape = input.sizes().vec();
    if (noise_shape_.empty()) return shape;
    bool fits = noise_shape_.size() == shape.size();
    for (size_t axis = 0; fits && axis < shape.size(); ++axis) {
      const int64_t drawn = noise_shape_[axis];
      fits = drawn == -1 || drawn == 1 || drawn == shape[axis];
      if (drawn == 1) shape[axis] = 1;
    }
    if (!fits) {
      internal::refuse_input(
          context, identity(),
          fmt::format("an input that noise_shape [{}] fits", fmt::join(noise_shape_, ", ")), input,
          "noise_shape has a size for each axis, the batch's first: 1, that of the axis, or -1");
    }
    return shape;
  }

  double rate_;
  std::vector<int64_t> noise_shape_;
};

}  // namespace

Layer Dropout(double rate, DropoutOptions options) {
  internal::check_rate(internal::titled("Dropout", options.name), rate);
  for (const int64_t size : options.noise_shape) {
    if (size >= 1 || size == -1) continue;
    throw invalid_argument(
        fmt::format("{}: noise_shape is [{}]", internal::titled("Dropout", options.name),
                    fmt::join(options.noise_shape, ", ")),
        "a size is 1, that of the axis, or -1");
  }
  return Layer(std::make_shared<DropoutImpl>(rate, std::move(options)));
}

}  // namespace muster::inline v0_1
