#include "muster/layers/activation_layers.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "muster/base/error.h"
#include "muster/layers/internal/checks.h"
#include "muster/layers/internal/fused_relu.h"
#include "muster/layers/internal/weights.h"
#include "muster/layers/unary_layer.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

class ActivationImpl final : public UnaryLayerImpl, public internal::MayBeRelu {
 public:
  ActivationImpl(const char* class_name, const Activation& activation, std::string name)
      : UnaryLayerImpl(class_name, std::move(name)), activation_(activation) {}

  Tensor call(const Tensor& input, CallContext& context) const override {
    internal::check_floating(context, identity(), input);
    if (activation_.is_softmax()) {
      internal::check_axis(context, identity(), "axis", activation_.axis, input);
    }
    return activation_(input);
  }

  bool keeps_steps() const override { return !activation_.is_softmax() || activation_.axis == -1; }
  LayerPrecision precision() const override {
    return activation_.is_softmax() ? LayerPrecision::kFloat32 : LayerPrecision::kAsGiven;
  }
  bool is_relu() const override { return activation_ == Activation::kRelu; }

 private:
  Activation activation_;
};

class PReLUImpl final : public UnaryLayerImpl {
 public:
  explicit PReLUImpl(PReLUOptions options)
      : UnaryLayerImpl("p_re_lu", options.name), options_(std::move(options)) {}

  Tensor call(const Tensor& input, CallContext& context) const override {
    internal::check_dtype(context, identity(), input);
    if (input.dim() < 2) internal::refuse_input(context, identity(), "[batch, features]", input);
    for (const int64_t axis : options_.shared_axes) {
      internal::check_axis(context, identity(), "shared_axes", axis, input);
    }
    const Shape wanted = alpha_shape(input);
    const Tensor alpha =
        internal::weight(context, identity(), 0, "alpha", wanted, input, options_.alpha_initializer,
                         options_.alpha_regularizer, options_.alpha_constraint);
    if (alpha.sizes() != wanted) {
      internal::refuse_input(context, identity(),
                             fmt::format("examples for the alpha {}", describe(alpha)), input,
                             "call a layer with the same shape as at its first call, except for "
                             "the batch and shared axes");
    }
    return at::relu(input) - alpha * at::relu(-input);
  }

  bool keeps_steps() const override { return true; }
  LayerPrecision precision() const override { return LayerPrecision::kWidened; }

 private:
  Shape alpha_shape(const Tensor& input) const {
    Shape shape(input.sizes().begin() + 1, input.sizes().end());
    for (const int64_t axis : options_.shared_axes) shape[static_cast<size_t>(axis - 1)] = 1;
    return shape;
  }

  PReLUOptions options_;
};

class SoftmaxImpl final : public LayerImpl {
 public:
  SoftmaxImpl(int64_t axis, std::string name)
      : LayerImpl("softmax", std::move(name)), axis_(axis) {}

  LayerOutputs call(const LayerInputs& inputs, CallContext& context) const override {
    Tensor x = internal::single_tensor(context, identity(), inputs, /*takes_mask=*/true);
    internal::check_floating(context, identity(), x);
    if (x.dim() < 2) internal::refuse_input(context, identity(), "[batch, ..., classes]", x);
    const int64_t axis = internal::check_axis(context, identity(), "axis", axis_, x);
    if (!inputs.masks.empty() && inputs.masks[0].defined() && axis < inputs.masks[0].dim()) {
      Tensor left_out = at::logical_not(inputs.masks[0]).to(x.scalar_type());
      while (left_out.dim() < x.dim()) left_out = left_out.unsqueeze(-1);
      x = x - left_out * 1e9;
    }
    return {.tensors = {at::softmax(x, axis)}, .masks = inputs.masks};
  }

 private:
  int64_t axis_;
};

Layer activation_layer(const char* class_name, const Activation& activation, std::string name) {
  return Layer(std::make_shared<ActivationImpl>(class_name, activation, std::move(name)));
}

}  // namespace

Layer ActivationLayer(const Activation& activation, std::string name) {
  return activation_layer("activation", activation, std::move(name));
}

Layer ReLU(ReLUOptions options) {
  internal::check_at_least_zero(internal::titled("ReLU", options.name), "max_value",
                                options.max_value.value_or(0));
  internal::check_at_least_zero(internal::titled("ReLU", options.name), "negative_slope",
                                options.negative_slope);
  internal::check_at_least_zero(internal::titled("ReLU", options.name), "threshold",
                                options.threshold);
  return activation_layer("re_lu",
                          activations::relu({.max_value = options.max_value,
                                             .negative_slope = options.negative_slope,
                                             .threshold = options.threshold}),
                          std::move(options.name));
}

Layer LeakyReLU(double alpha, std::string name) {
  internal::check_at_least_zero(internal::titled("LeakyReLU", name), "alpha", alpha);
  return activation_layer("leaky_re_lu", activations::leaky_relu({.alpha = alpha}),
                          std::move(name));
}

Layer ELU(double alpha, std::string name) {
  return activation_layer("elu", activations::elu({.alpha = alpha}), std::move(name));
}

Layer ThresholdedReLU(double theta, std::string name) {
  internal::check_at_least_zero(internal::titled("ThresholdedReLU", name), "theta", theta);
  return activation_layer("thresholded_re_lu",
                          activations::relu(activations::ReluOptions{.threshold = theta}),
                          std::move(name));
}

Layer PReLU(PReLUOptions options) {
  for (const int64_t axis : options.shared_axes) {
    internal::check_positive(internal::titled("PReLU", options.name), "shared_axes", axis);
  }
  return Layer(std::make_shared<PReLUImpl>(std::move(options)));
}

Layer Softmax(int64_t axis, std::string name) {
  return Layer(std::make_shared<SoftmaxImpl>(axis, std::move(name)));
}

}  // namespace muster::inline v0_1
