#include "muster/applications/vgg.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "muster/applications/internal/image_network.h"
#include "muster/base/error.h"
#include "muster/layers/dropout.h"
#include "muster/layers/initializers.h"
#include "muster/layers/pooling.h"
#include "muster/layers/reshape.h"

namespace muster::inline v0_1::applications {
namespace {

constexpr double kVggDropout = 0.5;

// torchvision flattens channels first: [units, channels * height * width] -> [height * width *
// channels, units].
internal::Layout flattened_kernel(const Shape& map) {
  return [height = map[1], width = map[2], channels = map[3]](const Tensor& tensor) {
    return tensor.reshape({tensor.size(0), channels, height, width})
        .permute({2, 3, 1, 0})
        .reshape({height * width * channels, tensor.size(0)});
  };
}

SymbolicTensor vgg_top(internal::ImageNetwork& network, SymbolicTensor x, int64_t units) {
  const internal::ImageNetworkOptions& options = network.options();
  const Initializer initializer = initializers::glorot_uniform();
  const auto fully = [&](const std::string& name, const std::string& module,
                         internal::Layout layout) {
    x = network.dense(x, units, activations::relu, name, internal::torchvision(module), initializer,
                      std::move(layout));
    if (options.torchvision) x = Dropout(kVggDropout, {.name = name + "_dropout"})(x);
  };
  internal::Layout layout = flattened_kernel(x.shape());
  x = Flatten("flatten")(x);
  fully("fc1", "classifier.0", std::move(layout));
  fully("fc2", "classifier.3", internal::layouts::transposed);
  network.weights().head("predictions");
  return network.dense(x, options.classes, options.classifier_activation, "predictions",
                       internal::torchvision("classifier.6"), initializer);
}

}  // namespace

Functional VGG16(VGGOptions options) {
  if (options.include_top && options.units < 1) {
    throw invalid_argument(fmt::format("VGG16: units is {}", options.units),
                           "units must be at least 1");
  }
  internal::ImageNetwork network("VGG16",
                                 {.input_shape = std::move(options.input_shape),
                                  .include_top = options.include_top,
                                  .classes = options.classes,
                                  .pooling = std::move(options.pooling),
                                  .classifier_activation = options.classifier_activation,
                                  .weights = std::move(options.weights),
                                  .torchvision = options.torchvision,
                                  .name = std::move(options.name)},
                                 {.kernel = initializers::glorot_uniform()});
  SymbolicTensor x = network.input();
  int64_t module = 0;  // torchvision counts convolutions, relus and poolings
  const std::vector<std::pair<int64_t, int64_t>> blocks{
      {2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}};
  for (size_t block = 0; block < blocks.size(); ++block) {
    const auto [convolutions, filters] = blocks[block];
    for (int64_t i = 0; i < convolutions; ++i, module += 2) {
      x = network.convolution(x, filters, 3, fmt::format("block{}_conv{}", block + 1, i + 1),
                              internal::torchvision(fmt::format("features.{}", module)),
                              {.use_bias = true, .activation = activations::relu});
    }
    x = MaxPooling2D({.pool_size = 2, .name = fmt::format("block{}_pool", block + 1)})(x);
    ++module;
  }
  if (options.include_top) {
    x = vgg_top(network, x, options.units);
  } else {
    for (const char* layer : {"fc1/*", "fc2/*", "predictions/*"})
      network.weights().ignore(internal::Weights::kOwn, layer);
    network.weights().ignore(internal::Weights::kTorchvision, "classifier.*");
    x = network.pooled(x, {});
  }
  return network.finish(x, "vgg16");
}

}  // namespace muster::inline v0_1::applications
