#include "muster/applications/resnet.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "muster/applications/internal/image_network.h"
#include "muster/layers/initializers.h"
#include "muster/layers/merge.h"
#include "muster/layers/padding.h"
#include "muster/layers/pooling.h"
#include "muster/layers/recompute.h"

namespace muster::inline v0_1::applications {
namespace {

using internal::ImageNetwork;
using internal::ModuleNames;
using internal::Weights;

internal::ImageStyle resnet_style(bool torchvision) {
  if (!torchvision) return {.epsilon = 1.001e-5, .kernel = initializers::glorot_uniform()};
  return {.epsilon = 1e-5,
          .momentum = 0.9,
          .kernel = initializers::variance_scaling(
              {.scale = 2,
               .mode = initializers::FanMode::kFanOut,
               .distribution = initializers::Distribution::kUntruncatedNormal}),
          .symmetric = true};
}

// A residual block, and its place in the network.
struct ResNetBlock {
  int64_t stage, place;  // both from 0
  int64_t filters, stride;
  bool projects;  // has a convolution in its shortcut

  std::string name() const { return fmt::format("conv{}_block{}", stage + 2, place + 1); }
  // Names of convolution `part` of the block; 0 is the one in the shortcut.
  ModuleNames convolution(int64_t part) const {
    const std::string torchvision = fmt::format("layer{}.{}", stage + 1, place);
    const std::string hugging_face =
        fmt::format("resnet.encoder.stages.{}.layers.{}", stage, place);
    if (part == 0) {
      return {{Weights::kTorchvision, torchvision + ".downsample.0"},
              {Weights::kHuggingFace, hugging_face + ".shortcut.convolution"}};
    }
    return {
        {Weights::kTorchvision, fmt::format("{}.conv{}", torchvision, part)},
        {Weights::kHuggingFace, fmt::format("{}.layer.{}.convolution", hugging_face, part - 1)}};
  }
  ModuleNames normalization(int64_t part) const {
    const std::string torchvision = fmt::format("layer{}.{}", stage + 1, place);
    const std::string hugging_face =
        fmt::format("resnet.encoder.stages.{}.layers.{}", stage, place);
    if (part == 0) {
      return {{Weights::kTorchvision, torchvision + ".downsample.1"},
              {Weights::kHuggingFace, hugging_face + ".shortcut.normalization"}};
    }
    return {
        {Weights::kTorchvision, fmt::format("{}.bn{}", torchvision, part)},
        {Weights::kHuggingFace, fmt::format("{}.layer.{}.normalization", hugging_face, part - 1)}};
  }
};

class ResNetMaker {
 public:
  ResNetMaker(const char* title, const std::vector<int64_t>& depths, bool bottleneck,
              ResNetOptions options)
      : depths_(depths),
        bottleneck_(bottleneck),
        torchvision_(options.torchvision || !bottleneck),
        recompute_(options.recompute),
        network_(title,
                 {.input_shape = std::move(options.input_shape),
                  .include_top = options.include_top,
                  .classes = options.classes,
                  .pooling = std::move(options.pooling),
                  .classifier_activation = options.classifier_activation,
                  .weights = std::move(options.weights),
                  .torchvision = torchvision_,
                  .name = std::move(options.name)},
                 resnet_style(torchvision_)) {}

  Functional make(const char* default_name) {
    SymbolicTensor x = part_of_its_own(network_.input(),
                                       [&](const SymbolicTensor& images) { return stem(images); });
    for (size_t stage = 0; stage < depths_.size(); ++stage) {
      const int64_t filters = int64_t{64} << stage;
      for (int64_t place = 0; place < depths_[stage]; ++place) {
        const int64_t stride = stage > 0 && place == 0 ? 2 : 1;
        // The first block of a stage changes channels. The first stage already has the right number
        // if it does not widen them.
        const bool projects = place == 0 && (bottleneck_ || stage > 0);
        const ResNetBlock at{static_cast<int64_t>(stage), place, filters, stride, projects};
        x = part_of_its_own(x, [&](const SymbolicTensor& images) { return block(images, at); });
      }
    }
    return network_.finish(top(x), default_name);
  }

 private:
  SymbolicTensor stem(const SymbolicTensor& images) {
    SymbolicTensor x = ZeroPadding2D(3, "conv1_pad")(images);
    x = network_.convolution(x, 64, 7, "conv1_conv",
                             {{Weights::kTorchvision, "conv1"},
                              {Weights::kHuggingFace, "resnet.embedder.embedder.convolution"}},
                             {.strides = 2, .use_bias = !torchvision_});
    x = network_.normalized(x, "conv1_bn",
                            {{Weights::kTorchvision, "bn1"},
                             {Weights::kHuggingFace, "resnet.embedder.embedder.normalization"}});
    x = network_.activated(x, activations::relu, "conv1_relu");
    // Nothing is below 0 here, so zeros around it never win.
    x = ZeroPadding2D(1, "pool1_pad")(x);
    return MaxPooling2D({.pool_size = 3, .strides = Size2D(2), .name = "pool1_pool"})(x);
  }

  // A convolution and its normalization.
  SymbolicTensor part(const SymbolicTensor& x, const ResNetBlock& block, int64_t part,
                      int64_t filters, int64_t kernel, int64_t stride) {
    const std::string name = fmt::format("{}_{}_", block.name(), part);
    SymbolicTensor y = x;
    if (kernel > 1 && stride > 1) y = network_.padded(y, kernel, name + "pad");
    y = network_.convolution(y, filters, kernel, name + "conv", block.convolution(part),
                             {.strides = stride, .use_bias = !torchvision_});
    return network_.normalized(y, name + "bn", block.normalization(part));
  }

  SymbolicTensor relu(const SymbolicTensor& x, const ResNetBlock& block, const char* name) {
    return network_.activated(x, activations::relu, block.name() + name);
  }

  SymbolicTensor block(const SymbolicTensor& x, const ResNetBlock& block) {
    const int64_t width = bottleneck_ ? 4 * block.filters : block.filters;
    const SymbolicTensor beside =
        block.projects ? part(x, block, 0, width, /*kernel=*/1, block.stride) : x;
    SymbolicTensor y = x;
    if (bottleneck_) {
      const int64_t first = torchvision_ ? 1 : block.stride;
      y = relu(part(y, block, 1, block.filters, 1, first), block, "_1_relu");
      y = relu(part(y, block, 2, block.filters, 3, block.stride / first), block, "_2_relu");
      y = part(y, block, 3, width, 1, 1);
    } else {
      y = relu(part(y, block, 1, width, 3, block.stride), block, "_1_relu");
      y = part(y, block, 2, width, 3, 1);
    }
    return relu(Add(block.name() + "_add")({beside, y}), block, "_out");
  }

  // Calls `make`, and recomputes its result in backward if the options say so.
  template <typename Make>
  SymbolicTensor part_of_its_own(const SymbolicTensor& x, const Make& make) {
    if (!recompute_) return make(x);
    const Shape shape = x.shape();
    const SymbolicTensor images = Input({shape.begin() + 1, shape.end()});
    return Recompute(Functional({images}, {make(images)}))(x);
  }

  SymbolicTensor top(SymbolicTensor x) {
    const internal::ImageNetworkOptions& options = network_.options();
    Weights& weights = network_.weights();
    if (!options.include_top) {
      weights.ignore(Weights::kOwn, "predictions/*");
      weights.ignore(Weights::kTorchvision, "fc.*");
      weights.ignore(Weights::kHuggingFace, "classifier.*");
      return network_.pooled(x, {"avg_pool", "max_pool"});
    }
    weights.head("predictions");
    x = GlobalAveragePooling2D({.name = "avg_pool"})(x);
    return network_.dense(x, options.classes, options.classifier_activation, "predictions",
                          {{Weights::kTorchvision, "fc"}, {Weights::kHuggingFace, "classifier.1"}},
                          initializers::glorot_uniform());
  }

  std::vector<int64_t> depths_;
  bool bottleneck_, torchvision_, recompute_;
  ImageNetwork network_;
};

}  // namespace

Functional ResNet18(ResNetOptions options) {
  return ResNetMaker("ResNet18", {2, 2, 2, 2}, false, std::move(options)).make("resnet18");
}

Functional ResNet34(ResNetOptions options) {
  return ResNetMaker("ResNet34", {3, 4, 6, 3}, false, std::move(options)).make("resnet34");
}

Functional ResNet50(ResNetOptions options) {
  return ResNetMaker("ResNet50", {3, 4, 6, 3}, true, std::move(options)).make("resnet50");
}

Functional ResNet101(ResNetOptions options) {
  return ResNetMaker("ResNet101", {3, 4, 23, 3}, true, std::move(options)).make("resnet101");
}

Functional ResNet152(ResNetOptions options) {
  return ResNetMaker("ResNet152", {3, 8, 36, 3}, true, std::move(options)).make("resnet152");
}

}  // namespace muster::inline v0_1::applications
