#include "muster/layers/layer_normalization.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "muster/base/error.h"
#include "muster/layers/internal/checks.h"
#include "muster/layers/internal/weights.h"
#include "muster/layers/unary_layer.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

// Counts the axes from the front and sorts them; refuses the batch and repeated axes.
std::vector<int64_t> normalized_axes(CallContext& context, const LayerIdentity& layer,
                                     const std::vector<int64_t>& given, const Tensor& input) {
  std::vector<int64_t> axes;
  for (const int64_t axis : given) {
    axes.push_back(internal::check_axis(context, layer, "axis", axis, input));
  }
  std::sort(axes.begin(), axes.end());
  if (axes.front() == 0 || std::adjacent_find(axes.begin(), axes.end()) != axes.end()) {
    throw invalid_argument(fmt::format("layer {}: axis is {}, of the input {}",
                                       context.name_of(layer), describe(given), describe(input)),
                           "each axis is named once, and the batch, axis 0, is not among them");
  }
  return axes;
}

template <typename Options>
Tensor gamma_of(CallContext& context, const LayerIdentity& layer, const Shape& sizes,
                const Tensor& input, const Options& options) {
  return internal::weight(context, layer, 0, "gamma", sizes, input, options.gamma_initializer,
                          options.gamma_regularizer, options.gamma_constraint);
}

template <typename Options>
Tensor beta_of(CallContext& context, const LayerIdentity& layer, const Shape& sizes,
               const Tensor& input, const Options& options) {
  return internal::weight(context, layer, 1, "beta", sizes, input, options.beta_initializer,
                          options.beta_regularizer, options.beta_constraint);
}

class LayerNormalizationImpl final : public UnaryLayerImpl {
 public:
  explicit LayerNormalizationImpl(LayerNormalizationOptions options)
      : UnaryLayerImpl("layer_normalization", options.name), options_(std::move(options)) {}

  Tensor call(const Tensor& input, CallContext& context) const override {
    internal::check_dtype(context, identity(), input);
    const std::vector<int64_t> axes = normalized_axes(context, identity(), options_.axis, input);
    Shape sizes;
    for (const int64_t axis : axes) sizes.push_back(input.size(axis));
    Tensor gamma, beta;
    if (options_.scale)
      gamma = checked(gamma_of(context, identity(), sizes, input, options_), sizes, input, context);
    if (options_.center)
      beta = checked(beta_of(context, identity(), sizes, input, options_), sizes, input, context);
    const bool trailing = axes.front() + static_cast<int64_t>(axes.size()) == input.dim();
    if (trailing) return at::layer_norm(input, sizes, gamma, beta, options_.epsilon);
    return over_any_axes(input, axes, gamma, beta);
  }

  bool keeps_steps() const override { return true; }
  LayerPrecision precision() const override { return LayerPrecision::kWidened; }

 private:
  const Tensor& checked(const Tensor& value, const Shape& sizes, const Tensor& input,
                        CallContext& context) const {
    if (value.sizes() != sizes) {
      internal::refuse_input(
          context, identity(),
          fmt::format("the sizes {} along its axes", describe(value.sizes().vec())), input,
          "a layer is called with the same sizes as at its first call");
    }
    return value;
  }

  // `gamma` and `beta` may be undefined.
  Tensor over_any_axes(const Tensor& input, const std::vector<int64_t>& axes, const Tensor& gamma,
                       const Tensor& beta) const {
    const Tensor centered = input - input.mean(axes, /*keepdim=*/true);
    const Tensor variance = centered.square().mean(axes, /*keepdim=*/true);
    Tensor output = centered * (variance + options_.epsilon).rsqrt();
    Shape shape(static_cast<size_t>(input.dim()), 1);
    for (const int64_t axis : axes) shape[static_cast<size_t>(axis)] = input.size(axis);
    if (gamma.defined()) output = output * gamma.reshape(shape);
    return beta.defined() ? output + beta.reshape(shape) : output;
  }

  LayerNormalizationOptions options_;
};

class GroupNormalizationImpl final : public UnaryLayerImpl {
 public:
  explicit GroupNormalizationImpl(GroupNormalizationOptions options)
      : UnaryLayerImpl("group_normalization", options.name), options_(std::move(options)) {}

  Tensor call(const Tensor& input, CallContext& context) const override {
    internal::check_dtype(context, identity(), input);
    if (input.dim() < 2)
      internal::refuse_input(context, identity(), "[batch, ..., channels]", input);
    const int64_t axis = normalized_axes(context, identity(), {options_.axis}, input)[0];
    const int64_t channels = input.size(axis);
    const int64_t groups = options_.groups == -1 ? channels : options_.groups;
    if (channels < 1 || channels % groups != 0) {
      internal::refuse_input(context, identity(),
                             fmt::format("channels that {} groups divide", groups), input);
    }
    Tensor gamma, beta;
    if (options_.scale) gamma = gamma_of(context, identity(), {channels}, input, options_);
    if (options_.center) beta = beta_of(context, identity(), {channels}, input, options_);
    for (const Tensor& each : {gamma, beta}) {
      if (!each.defined() || each.size(0) == channels) continue;
      internal::refuse_input(context, identity(), fmt::format("{} channels", each.size(0)), input,
                             "a layer is called with as many channels as at its first call");
    }
    // LibTorch takes no beta alone.
    if (beta.defined() && !gamma.defined()) gamma = at::ones_like(beta);
    return at::group_norm(input.movedim(axis, 1), groups, gamma, beta, options_.epsilon)
        .movedim(1, axis);
  }

  bool keeps_steps() const override { return true; }
  LayerPrecision precision() const override { return LayerPrecision::kWidened; }

 private:
  GroupNormalizationOptions options_;
};

class UnitNormalizationImpl final : public UnaryLayerImpl {
 public:
  UnitNormalizationImpl(std::vector<int64_t> axis, std::string name)
      : UnaryLayerImpl("unit_normalization", std::move(name)), axis_(std::move(axis)) {}

  Tensor call(const Tensor& input, CallContext& context) const override {
    internal::check_floating(context, identity(), input);
    const std::vector<int64_t> axes = normalized_axes(context, identity(), axis_, input);
    return input * input.square().sum(axes, /*keepdim=*/true).clamp_min(1e-12).rsqrt();
  }

  bool keeps_steps() const override { return true; }
  LayerPrecision precision() const override { return LayerPrecision::kWidened; }

 private:
  std::vector<int64_t> axis_;
};

void check_epsilon(const std::string& layer, double epsilon) {
  if (std::isfinite(epsilon) && epsilon > 0) return;
  throw invalid_argument(fmt::format("{}: epsilon is {}", layer, epsilon),
                         "epsilon must be finite and above 0");
}

void check_axes_given(const std::string& layer, const std::vector<int64_t>& axis) {
  if (!axis.empty()) return;
  throw invalid_argument(fmt::format("{}: axis is empty", layer), "axis must name at least one");
}

}  // namespace

Layer LayerNormalization(LayerNormalizationOptions options) {
  check_epsilon(internal::titled("LayerNormalization", options.name), options.epsilon);
  check_axes_given(internal::titled("LayerNormalization", options.name), options.axis);
  return Layer(std::make_shared<LayerNormalizationImpl>(std::move(options)));
}

Layer GroupNormalization(GroupNormalizationOptions options) {
  check_epsilon(internal::titled("GroupNormalization", options.name), options.epsilon);
  if (options.groups != -1)
    internal::check_positive(internal::titled("GroupNormalization", options.name), "groups",
                             options.groups);
  return Layer(std::make_shared<GroupNormalizationImpl>(std::move(options)));
}

Layer UnitNormalization(std::vector<int64_t> axis, std::string name) {
  check_axes_given(internal::titled("UnitNormalization", name), axis);
  return Layer(std::make_shared<UnitNormalizationImpl>(std::move(axis), std::move(name)));
}

}  // namespace muster::inline v0_1
