#include "muster/applications/internal/image_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/layers/activation_layers.h"
#include "muster/layers/batch_normalization.h"
#include "muster/layers/convolution.h"
#include "muster/layers/dense.h"
#include "muster/layers/padding.h"
#include "muster/layers/pooling.h"

namespace muster::inline v0_1::internal {
namespace {

constexpr int64_t kSmallest = 32;  // rows and columns of an image

ImageNetworkOptions checked(const std::string& title, ImageNetworkOptions options) {
  Shape& shape = options.input_shape;
  if (shape.empty()) shape = {224, 224, 3};
  if (shape.size() != 3 || shape[2] < 1 ||
      std::any_of(shape.begin(), shape.begin() + 2,
                  [](int64_t size) { return size != -1 && size < kSmallest; })) {
    throw invalid_argument(fmt::format("{}: input_shape is {}", title, describe(shape)),
                           fmt::format("it is {{height, width, channels}}; height and width are at "
                                       "least {}, or -1 for any",
                                       kSmallest));
  }
  if (options.include_top && options.classes < 1) {
    throw invalid_argument(fmt::format("{}: classes is {}", title, options.classes),
                           "classes must be at least 1");
  }
  if (options.pooling != "" && options.pooling != "avg" && options.pooling != "max") {
    throw invalid_argument(fmt::format("{}: pooling is \"{}\"", title, options.pooling),
                           "pooling is \"avg\", \"max\" or empty");
  }
  if (options.include_top && !options.pooling.empty()) {
    throw invalid_argument(
        fmt::format("{}: pooling is \"{}\", and include_top is true", title, options.pooling),
        "pooling is for include_top = false; the top has its own");
  }
  return options;
}

}  // namespace

ImageNetwork::ImageNetwork(std::string title, ImageNetworkOptions options, ImageStyle style)
    : title_(std::move(title)),
      options_(checked(title_, std::move(options))),
      style_(std::move(style)),
      weights_(title_, options_.weights),
      input_(Input(options_.input_shape)) {}

SymbolicTensor ImageNetwork::convolution(const SymbolicTensor& x, int64_t filters, int64_t kernel,
                                         const std::string& name, const ModuleNames& modules,
                                         ImageConvolution convolution) {
  weights_.convolution(name, modules);
  const bool whole = (convolution.strides.height > 1 && !convolution.pads) || kernel == 1;
  return Conv2D(filters, kernel,
                {.strides = convolution.strides,
                 .padding = whole ? Padding::kValid : Padding::kSame,
                 .activation = convolution.activation,
                 .use_bias = convolution.use_bias,
                 .kernel_initializer = weights_.initializer(name + "/kernel", style_.kernel),
                 .bias_initializer = weights_.initializer(name + "/bias", initializers::zeros()),
                 .name = name})(x);
}

SymbolicTensor ImageNetwork::depthwise(const SymbolicTensor& x, int64_t kernel, int64_t stride,
                                       const std::string& name, const ModuleNames& modules) {
  weights_.depthwise(name, modules);
  return DepthwiseConv2D(kernel, {.strides = stride,
                                  .padding = stride > 1 ? Padding::kValid : Padding::kSame,
                                  .use_bias = false,
                                  .depthwise_initializer = weights_.initializer(
                                      name + "/depthwise_kernel", style_.kernel),
                                  .name = name})(x);
}

SymbolicTensor ImageNetwork::normalized(const SymbolicTensor& x, const std::string& name,
                                        const ModuleNames& modules) {
  weights_.batch_normalization(name, modules);
  return BatchNormalization(
      {.momentum = style_.momentum,
       .epsilon = style_.epsilon,
       .beta_initializer = weights_.initializer(name + "/beta", initializers::zeros()),
       .gamma_initializer = weights_.initializer(name + "/gamma", initializers::ones()),
       .moving_mean_initializer =
           weights_.initializer(name + "/moving_mean", initializers::zeros()),
       .moving_variance_initializer =
           weights_.initializer(name + "/moving_variance", initializers::ones()),
       .name = name})(x);
}

SymbolicTensor ImageNetwork::activated(const SymbolicTensor& x, const Activation& activation,
                                       const std::string& name) {
  return ActivationLayer(activation, name)(x);
}

SymbolicTensor ImageNetwork::padded(const SymbolicTensor& x, int64_t kernel,
                                    const std::string& name) {
  const int64_t half = kernel / 2;
  // A size that is even, or any, leaves one row less to pad.
  const auto before = [&](int64_t size) {
    return half - (!style_.symmetric && (size < 0 || size % 2 == 0) ? 1 : 0);
  };
  return ZeroPadding2D({{before(x.shape()[1]), half}, {before(x.shape()[2]), half}}, name)(x);
}

SymbolicTensor ImageNetwork::dense(const SymbolicTensor& x, int64_t units,
                                   const Activation& activation, const std::string& name,
                                   const ModuleNames& modules, Initializer kernel_initializer,
                                   Layout kernel_layout) {
  for (const auto& [program, module] : modules) {
    weights_.add(program, name + "/kernel", module + ".weight", kernel_layout);
    weights_.add(program, name + "/bias", module + ".bias");
  }
  return Dense(
      units,
      {.activation = activation,
       .kernel_initializer = weights_.initializer(name + "/kernel", std::move(kernel_initializer)),
       .bias_initializer = weights_.initializer(name + "/bias", initializers::zeros()),
       .name = name})(x);
}

SymbolicTensor ImageNetwork::pooled(const SymbolicTensor& x, const PoolNames& names) {
  if (options_.pooling == "avg") return GlobalAveragePooling2D({.name = names.average})(x);
  if (options_.pooling == "max") return GlobalMaxPooling2D({.name = names.largest})(x);
  return x;
}

Functional ImageNetwork::finish(const SymbolicTensor& output,
                                const std::string& default_name) const {
  Functional model({input_}, {output}, options_.name.empty() ? default_name : options_.name);
  return weights_.load(std::move(model), options_.torchvision ? "" : "torchvision");
}

int64_t divisible_channels(double channels) {
  constexpr int64_t kDivisor = 8;
  const int64_t rounded =
      std::max(kDivisor, static_cast<int64_t>(channels + kDivisor / 2.0) / kDivisor * kDivisor);
  return static_cast<double>(rounded) < 0.9 * channels ? rounded + kDivisor : rounded;
}

}  // namespace muster::inline v0_1::internal
