#include "muster/layers/core.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/layers/internal/bfloat16.h"
#include "muster/layers/internal/checks.h"
#include "muster/layers/internal/matrix_product.h"
#include "muster/layers/internal/noise_tensors.h"
#include "muster/layers/internal/weights.h"
#include "muster/layers/unary_layer.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

class DenseImpl final : public UnaryLayerImpl {
 public:
  DenseImpl(int64_t units, DenseOptions options)
      : UnaryLayerImpl("dense", options.name), units_(units), options_(std::move(options)) {}

  Tensor call(const Tensor& input, CallContext& context) const override {
    internal::check_dtype(context, identity(), input);
    if (input.dim() < 2) {
      internal::refuse_input(context, identity(), "[batch, features]", input);
    }
    const Tensor& variable = context.variable(identity(), 0, [this, &input, &context] {
      return VariableSpec{.name = "kernel",
                          .shape = {input.size(-1), units_},
                          .dtype = internal::weight_dtype_for(input, context, identity()),
                          .initializer = options_.kernel_initializer,
                          .regularizer = options_.kernel_regularizer,
                          .constraint = options_.kernel_constraint};
    });
    const Tensor kernel = internal::weight_for(input, variable, context, identity());
    if (input.size(-1) != kernel.size(0)) {
      internal::refuse_input(context, identity(), fmt::format("[..., {}]", kernel.size(0)), input,
                             "a layer is called with as many features as at its first call");
    }
    Tensor output = internal::activated(options_.activation, linear_part(input, kernel, context));
    context.add_activity_loss(options_.activity_regularizer, output);
    return output;
  }

  bool keeps_steps() const override { return true; }
  LayerPrecision precision() const override { return LayerPrecision::kBfloat16; }

 private:
  Tensor linear_part(const Tensor& input, const Tensor& kernel, CallContext& context) const {
    if (!options_.use_bias) return product(input, kernel, Tensor(), context);
    const Tensor& bias = context.variable(identity(), 1, [this, &input, &context] {
      return VariableSpec{.name = "bias",
                          .shape = {units_},
                          .dtype = internal::weight_dtype_for(input, context, identity()),
                          .initializer = options_.bias_initializer,
                          .regularizer = options_.bias_regularizer,
                          .constraint = options_.bias_constraint};
    });
    return product(input, kernel, internal::weight_for(input, bias, context, identity()), context);
  }

  static Tensor product(const Tensor& input, const Tensor& kernel, const Tensor& bias,
                        const CallContext& context) {
    if (input.scalar_type() == kBFloat16) {
      const Tensor rows = input.flatten(0, -2);
      Shape shape(input.sizes().begin(), input.sizes().end());
      shape.back() = kernel.size(1);
      return internal::affine(rows, kernel, bias).view(shape);
    }
    if (input.dim() != 2) {
      return bias.defined() ? input.matmul(kernel) + bias : input.matmul(kernel);
    }
    // A replica that is alone has no buffer that gradients must be brought to.
    if (context.training() && context.num_replicas() > 1) {
      return internal::matrix_product(input, kernel, bias);
    }
    return bias.defined() ? at::addmm(bias, input, kernel) : at::mm(input, kernel);
  }

  int64_t units_;
  DenseOptions options_;
};

class FlattenImpl final : public UnaryLayerImpl {
 public:
  explicit FlattenImpl(std::string name) : UnaryLayerImpl("flatten", std::move(name)) {}

  Tensor call(const Tensor& input, CallContext& context) const override {
    context.name_of(identity());
    if (input.dim() < 1) {
      internal::refuse_input(context, identity(), "[batch, ...]", input);
    }
    return input.dim() == 1 ? input.unsqueeze(1) : input.flatten(1);
  }

  LayerPrecision precision() const override { return LayerPrecision::kAsGiven; }
};

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

Layer Dense(int64_t units, DenseOptions options) {
  internal::check_positive(internal::titled("Dense", options.name), "units", units);
  return Layer(std::make_shared<DenseImpl>(units, std::move(options)));
}

Layer Flatten(std::string name) { return Layer(std::make_shared<FlattenImpl>(std::move(name))); }

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
