#include "muster/layers/convolution.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "muster/base/error.h"
#include "muster/layers/internal/bfloat16.h"
#include "muster/layers/internal/checks.h"
#include "muster/layers/internal/image_layers.h"
#include "muster/layers/internal/kernel_layout.h"
#include "muster/layers/internal/weights.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace internal {

ConvolutionImpl::Variables ConvolutionImpl::variables(const Tensor& input,
                                                      CallContext& context) const {
  check_dtype(context, identity(), input);
  check_windowed(context, identity(), input, spec_.window);
  if (input.size(-1) % spec_.groups != 0) {
    refuse_input(context, identity(), fmt::format("channels that {} groups divide", spec_.groups),
                 input);
  }
  const Tensor& variable = context.variable(identity(), 0, [this, &input, &context] {
    Shape shape = spec_.window.sizes;
    shape.insert(shape.end(), {input.size(-1) / spec_.groups, spec_.filters});
    return VariableSpec{.name = "kernel",
                        .shape = shape,
                        .dtype = weight_dtype_for(input, context, identity()),
                        .initializer = spec_.kernel_initializer,
                        .regularizer = spec_.kernel_regularizer,
                        .constraint = spec_.kernel_constraint};
  });
  const Tensor kernel = weight_for(input, variable, context, identity());
  check_channels(context, identity(), input, spec_.window.rank(), kernel.size(-2) * spec_.groups);
  Tensor bias;
  if (spec_.use_bias) {
    bias = weight(context, identity(), 1, "bias", {spec_.filters}, input, spec_.bias_initializer,
                  spec_.bias_regularizer, spec_.bias_constraint);
  }
  return {kernel, bias};
}

Tensor ConvolutionImpl::call_without_activation(const Tensor& input, CallContext& context) const {
  const auto [kernel, bias] = variables(input, context);
  return convolve(input, filters_first(kernel, input.size(0)), bias, spec_.window, spec_.groups);
}

Tensor ConvolutionImpl::call(const Tensor& input, CallContext& context) const {
  return finished(call_without_activation(input, context), context);
}

Tensor ConvolutionImpl::call_with_margins(const Tensor& input, const Sizes& margins,
                                          CallContext& context) const {
  const auto [kernel, bias] = variables(input, context);
  return finished(convolve(input, filters_first(kernel, input.size(0)), bias, spec_.window,
                           spec_.groups, margins),
                  context);
}

Tensor ConvolutionImpl::finished(const Tensor& sums, CallContext& context) const {
  Tensor output = activated(spec_.activation, sums);
  context.add_activity_loss(spec_.activity_regularizer, output);
  return output;
}

}  // namespace internal

namespace {

template <typename Size, typename Options>
Layer convolution(const char* layer, const char* class_name, int64_t filters,
                  const Size& kernel_size, Options options) {
  internal::ConvolutionSpec spec{
      .class_name = class_name,
      .filters = filters,
      .window = {internal::sizes_of(kernel_size), internal::sizes_of(options.strides),
                 internal::sizes_of(options.dilation_rate), options.padding},
      .groups = options.groups,
      .activation = options.activation,
      .use_bias = options.use_bias,
      .kernel_initializer = std::move(options.kernel_initializer),
      .bias_initializer = std::move(options.bias_initializer),
      .kernel_regularizer = std::move(options.kernel_regularizer),
      .bias_regularizer = std::move(options.bias_regularizer),
      .activity_regularizer = std::move(options.activity_regularizer),
      .kernel_constraint = std::move(options.kernel_constraint),
      .bias_constraint = std::move(options.bias_constraint)};
  const std::string title = internal::titled(layer, options.name);
  internal::check_positive(title, "filters", filters);
  internal::check_positive(title, "groups", options.groups);
  internal::check_window(title, "kernel_size", spec.window, spec.window.rank() == 1);
  if (filters % options.groups != 0) {
    throw invalid_argument(
        fmt::format("{}: filters is {}, and groups {}", title, filters, options.groups),
        "groups must divide filters");
  }
  return Layer(
      std::make_shared<internal::ConvolutionImpl>(std::move(spec), std::move(options.name)));
}

}  // namespace

Layer Conv1D(int64_t filters, int64_t kernel_size, Conv1DOptions options) {
  return convolution("Conv1D", "conv1d", filters, kernel_size, std::move(options));
}

Layer Conv2D(int64_t filters, Size2D kernel_size, Conv2DOptions options) {
  return convolution("Conv2D", "conv2d", filters, kernel_size, std::move(options));
}

Layer Conv3D(int64_t filters, Size3D kernel_size, Conv3DOptions options) {
  return convolution("Conv3D", "conv3d", filters, kernel_size, std::move(options));
}

}  // namespace muster::inline v0_1
