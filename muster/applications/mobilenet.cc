#include "muster/applications/mobilenet.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "muster/applications/internal/image_network.h"
#include "muster/base/error.h"
#include "muster/layers/dropout.h"
#include "muster/layers/initializers.h"
#include "muster/layers/merge.h"
#include "muster/layers/pooling.h"

namespace muster::inline v0_1::applications {
namespace {

using internal::torchvision;

constexpr double kMobileNetDropout = 0.2;  // torchvision's

internal::ImageStyle mobilenet_style(bool torchvision) {
  if (!torchvision) {
    return {.epsilon = 1e-3, .momentum = 0.999, .kernel = initializers::glorot_uniform()};
  }
  return {.epsilon = 1e-5,
          .momentum = 0.9,
          .kernel = initializers::variance_scaling(
              {.scale = 2,
               .mode = initializers::FanMode::kFanOut,
               .distribution = initializers::Distribution::kUntruncatedNormal}),
          .symmetric = true};
}

// Blocks that are alike: `expansion` times the channels inside, then `filters`.
struct MobileNetStage {
  int64_t expansion, filters, blocks, stride;
};

class MobileNetMaker {
 public:
  MobileNetMaker(MobileNetV2Options options)
      : alpha_(options.alpha),
        network_("MobileNetV2",
                 {.input_shape = std::move(options.input_shape),
                  .include_top = options.include_top,
                  .classes = options.classes,
                  .pooling = std::move(options.pooling),
                  .classifier_activation = options.classifier_activation,
                  .weights = std::move(options.weights),
                  .torchvision = options.torchvision,
                  .name = std::move(options.name)},
                 mobilenet_style(options.torchvision)) {}

  Functional make() {
    SymbolicTensor x = network_.input();
    const bool pads = !network_.options().torchvision;
    if (!pads) x = network_.padded(x, 3, "Conv1_pad");
    x = network_.convolution(x, internal::divisible_channels(32 * alpha_), 3, "Conv1",
                             torchvision("features.0.0"), {.strides = 2, .pads = pads});
    x = normalized(x, "bn_Conv1", "features.0.1");
    x = network_.activated(x, activations::relu6, "Conv1_relu");
    const std::vector<MobileNetStage> stages{{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2},
                                             {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2},
                                             {6, 320, 1, 1}};
    int64_t number = 0;
    for (const MobileNetStage& stage : stages) {
      for (int64_t i = 0; i < stage.blocks; ++i)
        x = block(x, number++, stage, i == 0 ? stage.stride : 1);
    }
    const int64_t last = alpha_ > 1 ? internal::divisible_channels(1280 * alpha_) : 1280;
    const std::string module = fmt::format("features.{}", number + 1);
    x = network_.convolution(x, last, 1, "Conv_1", torchvision(module + ".0"));
    x = normalized(x, "Conv_1_bn", module + ".1");
    x = network_.activated(x, activations::relu6, "out_relu");
    return network_.finish(top(x), fmt::format("mobilenetv2_{:.2f}", alpha_));
  }

 private:
  SymbolicTensor normalized(const SymbolicTensor& x, const std::string& name,
                            const std::string& module) {
    return network_.normalized(x, name, torchvision(module));
  }

  SymbolicTensor block(const SymbolicTensor& x, int64_t number, const MobileNetStage& stage,
                       int64_t stride) {
    const int64_t channels = x.shape()[3];
    const int64_t filters =
        internal::divisible_channels(static_cast<double>(stage.filters) * alpha_);
    const bool expands = stage.expansion != 1;
    const std::string name = number == 0 ? "expanded_conv_" : fmt::format("block_{}_", number);
    const std::string module = fmt::format("features.{}.conv.", number + 1);
    SymbolicTensor y = x;
    if (expands) {
      y = network_.convolution(y, stage.expansion * channels, 1, name + "expand",
                               torchvision(module + "0.0"));
      y = normalized(y, name + "expand_BN", module + "0.1");
      y = network_.activated(y, activations::relu6, name + "expand_relu");
    }
    const int64_t deep = expands ? 1 : 0;  // its place in torchvision's block
    if (stride > 1) y = network_.padded(y, 3, name + "pad");
    y = network_.depthwise(y, 3, stride, name + "depthwise",
                           torchvision(fmt::format("{}{}.0", module, deep)));
    y = normalized(y, name + "depthwise_BN", fmt::format("{}{}.1", module, deep));
    y = network_.activated(y, activations::relu6, name + "depthwise_relu");
    y = network_.convolution(y, filters, 1, name + "project",
                             torchvision(fmt::format("{}{}", module, deep + 1)));
    y = normalized(y, name + "project_BN", fmt::format("{}{}", module, deep + 2));
    return stride == 1 && channels == filters ? Add(name + "add")({x, y}) : y;
  }

  SymbolicTensor top(SymbolicTensor x) {
    const internal::ImageNetworkOptions& options = network_.options();
    if (!options.include_top) {
      network_.weights().ignore(internal::Weights::kOwn, "predictions/*");
      network_.weights().ignore(internal::Weights::kTorchvision, "classifier.*");
      return network_.pooled(x, {});
    }
    network_.weights().head("predictions");
    x = GlobalAveragePooling2D()(x);
    if (options.torchvision) x = Dropout(kMobileNetDropout, {.name = "dropout"})(x);
    return network_.dense(x, options.classes, options.classifier_activation, "predictions",
                          torchvision("classifier.1"), initializers::glorot_uniform());
  }

  double alpha_;
  internal::ImageNetwork network_;
};

}  // namespace

Functional MobileNetV2(MobileNetV2Options options) {
  if (!std::isfinite(options.alpha) || options.alpha <= 0) {
    throw invalid_argument(fmt::format("MobileNetV2: alpha is {}", options.alpha),
                           "alpha must be finite and above 0");
  }
  return MobileNetMaker(std::move(options)).make();
}

}  // namespace muster::inline v0_1::applications
