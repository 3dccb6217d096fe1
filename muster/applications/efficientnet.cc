#include "muster/applications/efficientnet.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "muster/applications/internal/image_network.h"
#include "muster/base/error.h"
#include "muster/layers/dropout.h"
#include "muster/layers/initializers.h"
#include "muster/layers/merge.h"
#include "muster/layers/pooling.h"
#include "muster/layers/rescaling.h"
#include "muster/layers/reshape.h"
#include "muster/layers/unary_layer.h"

namespace muster::inline v0_1::applications {
namespace {

using internal::ModuleNames;
using internal::torchvision;

internal::ImageStyle efficientnet_style(bool torchvision) {
  const Initializer kernel =
      initializers::variance_scaling({.scale = 2, .mode = initializers::FanMode::kFanOut});
  if (!torchvision) return {.kernel = kernel};
  return {.epsilon = 1e-5, .momentum = 0.9, .kernel = kernel, .symmetric = true};
}

// Brings channels to mean 0 and variance 1 by numbers that are part of the model: Keras's
// Normalization, with its three variables.
class ImageNormalizationImpl final : public UnaryLayerImpl {
 public:
  explicit ImageNormalizationImpl(const internal::Weights& weights)
      : UnaryLayerImpl("normalization", "normalization"),
        mean_(weights.initializer("normalization/mean", initializers::zeros())),
        variance_(weights.initializer("normalization/variance", initializers::ones())),
        count_(weights.initializer("normalization/count", initializers::zeros())) {}

  Tensor call(const Tensor& input, CallContext& context) const override {
    const Shape channels{input.size(-1)};
    const Tensor mean = variable(context, 0, "mean", channels, mean_, input);
    const Tensor variance = variable(context, 1, "variance", channels, variance_, input);
    variable(context, 2, "count", {}, count_, input);
    return (input - mean) / variance.sqrt().clamp_min(1e-7);
  }

 private:
  Tensor variable(CallContext& context, int slot, const char* name, const Shape& shape,
                  const Initializer& initializer, const Tensor& input) const {
    return context.variable(identity(), slot, [&] {
      return VariableSpec{.name = name,
                          .shape = shape,
                          .dtype = input.scalar_type(),
                          .initializer = initializer,
                          .trainable = false};
    });
  }

  Initializer mean_, variance_, count_;
};

// Blocks that are alike: `expansion` times the channels inside, then `filters`.
struct EfficientNetStage {
  int64_t kernel, blocks, filters, expansion, stride;
};

// A block, and its place in the network.
struct EfficientNetBlock {
  int64_t stage, place;  // both from 0
  int64_t kernel, filters, expansion, stride;
  double drop;  // how many examples skip it

  std::string name() const {
    return fmt::format("block{}{}_", stage + 1, static_cast<char>('a' + place));
  }
  // Names of part `part` of torchvision's block, which has no part 0 if nothing is expanded.
  ModuleNames modules(int64_t part, const std::string& rest) const {
    return torchvision(fmt::format("features.{}.{}.block.{}.{}", stage + 1, place,
                                   expansion == 1 ? part - 1 : part, rest));
  }
};

class EfficientNetMaker {
 public:
  EfficientNetMaker(EfficientNetOptions options)
      : dropout_(options.dropout),
        drop_connect_(options.drop_connect),
        network_("EfficientNetB0",
                 {.input_shape = std::move(options.input_shape),
                  .include_top = options.include_top,
                  .classes = options.classes,
                  .pooling = std::move(options.pooling),
                  .classifier_activation = options.classifier_activation,
                  .weights = std::move(options.weights),
                  .torchvision = options.torchvision,
                  .name = std::move(options.name)},
                 efficientnet_style(options.torchvision)) {}

  Functional make() {
    SymbolicTensor x = stem();
    const std::vector<EfficientNetStage> stages{
        {3, 1, 16, 1, 1},  {3, 2, 24, 6, 2},  {5, 2, 40, 6, 2}, {3, 3, 80, 6, 2},
        {5, 3, 112, 6, 1}, {5, 4, 192, 6, 2}, {3, 1, 320, 6, 1}};
    int64_t count = 0, number = 0;
    for (const EfficientNetStage& stage : stages) count += stage.blocks;
    for (size_t stage = 0; stage < stages.size(); ++stage) {
      const EfficientNetStage& alike = stages[stage];
      for (int64_t place = 0; place < alike.blocks; ++place, ++number) {
        x = block(x, {static_cast<int64_t>(stage), place, alike.kernel, alike.filters,
                      alike.expansion, place == 0 ? alike.stride : 1,
                      drop_connect_ * static_cast<double>(number) / static_cast<double>(count)});
      }
    }
    x = network_.convolution(x, 1280, 1, "top_conv", torchvision("features.8.0"));
    x = network_.normalized(x, "top_bn", torchvision("features.8.1"));
    x = network_.activated(x, activations::swish, "top_activation");
    return network_.finish(top(x), "efficientnetb0");
  }

 private:
  SymbolicTensor stem() {
    SymbolicTensor x = network_.input();
    if (!network_.options().torchvision) {
      x = Rescaling(1.0 / 255, 0, "rescaling")(x);
      x = Layer(std::make_shared<ImageNormalizationImpl>(network_.weights()))(x);
    }
    x = network_.padded(x, 3, "stem_conv_pad");
    x = network_.convolution(x, 32, 3, "stem_conv", torchvision("features.0.0"), {.strides = 2});
    x = network_.normalized(x, "stem_bn", torchvision("features.0.1"));
    return network_.activated(x, activations::swish, "stem_activation");
  }

  SymbolicTensor block(const SymbolicTensor& x, const EfficientNetBlock& block) {
    const int64_t channels = x.shape()[3], inside = channels * block.expansion;
    const std::string name = block.name();
    SymbolicTensor y = x;
    if (block.expansion != 1) {
      y = network_.convolution(y, inside, 1, name + "expand_conv", block.modules(0, "0"));
      y = network_.normalized(y, name + "expand_bn", block.modules(0, "1"));
      y = network_.activated(y, activations::swish, name + "expand_activation");
    }
    if (block.stride > 1) y = network_.padded(y, block.kernel, name + "dwconv_pad");
    y = network_.depthwise(y, block.kernel, block.stride, name + "dwconv", block.modules(1, "0"));
    y = network_.normalized(y, name + "bn", block.modules(1, "1"));
    y = network_.activated(y, activations::swish, name + "activation");
    y = excited(y, std::max<int64_t>(1, channels / 4), block);
    y = network_.convolution(y, block.filters, 1, name + "project_conv", block.modules(3, "0"));
    y = network_.normalized(y, name + "project_bn", block.modules(3, "1"));
    if (block.stride > 1 || channels != block.filters) return y;
    if (block.drop > 0)
      y = Dropout(block.drop, {.noise_shape = {-1, 1, 1, 1}, .name = name + "drop"})(y);
    return Add(name + "add")({y, x});
  }

  // Weighs channels by global features of the image ("squeeze and excitation").
  SymbolicTensor excited(const SymbolicTensor& x, int64_t squeezed,
                         const EfficientNetBlock& block) {
    const int64_t channels = x.shape()[3];
    const std::string name = block.name() + "se_";
    SymbolicTensor y = GlobalAveragePooling2D({.name = name + "squeeze"})(x);
    y = Reshape({1, 1, channels}, name + "reshape")(y);
    y = network_.convolution(y, squeezed, 1, name + "reduce", block.modules(2, "fc1"),
                             {.use_bias = true, .activation = activations::swish});
    y = network_.convolution(y, channels, 1, name + "expand", block.modules(2, "fc2"),
                             {.use_bias = true, .activation = activations::sigmoid});
    return Multiply(name + "excite")({x, y});
  }

  SymbolicTensor top(SymbolicTensor x) {
    const internal::ImageNetworkOptions& options = network_.options();
    if (!options.include_top) {
      network_.weights().ignore(internal::Weights::kOwn, "predictions/*");
      network_.weights().ignore(internal::Weights::kTorchvision, "classifier.*");
      return network_.pooled(x, {"avg_pool", "max_pool"});
    }
    network_.weights().head("predictions");
    x = GlobalAveragePooling2D({.name = "avg_pool"})(x);
    if (dropout_ > 0) x = Dropout(dropout_, {.name = "top_dropout"})(x);
    return network_.dense(
        x, options.classes, options.classifier_activation, "predictions",
        torchvision("classifier.1"),
        initializers::variance_scaling({.scale = 1.0 / 3,
                                        .mode = initializers::FanMode::kFanOut,
                                        .distribution = initializers::Distribution::kUniform}));
  }

  double dropout_, drop_connect_;
  internal::ImageNetwork network_;
};

}  // namespace

Functional EfficientNetB0(EfficientNetOptions options) {
  for (const auto& [field, rate] :
       {std::pair("dropout", options.dropout), std::pair("drop_connect", options.drop_connect)}) {
    if (rate >= 0 && rate < 1) continue;
    throw invalid_argument(fmt::format("EfficientNetB0: {} is {}", field, rate),
                           fmt::format("{} must be at least 0 and below 1", field));
  }
  return EfficientNetMaker(std::move(options)).make();
}

}  // namespace muster::inline v0_1::applications
