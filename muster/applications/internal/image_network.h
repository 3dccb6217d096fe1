// The parts of the networks for images: layers that find their weights, and the ends they have in
// common. Thread safety: belongs to the thread that builds the network.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/applications/internal/weights.h"
#include "muster/layers/activations.h"
#include "muster/layers/functional.h"
#include "muster/layers/window.h"

namespace muster::inline v0_1::internal {

// The options that all of them have.
struct ImageNetworkOptions {
  Shape input_shape{};
  bool include_top = true;
  int64_t classes = 1000;
  std::string pooling{};
  Activation classifier_activation{};
  std::string weights{};
  bool torchvision = false;
  std::string name{};
};

// Numbers in which Keras's networks and torchvision's differ.
struct ImageStyle {
  double epsilon = 1e-3;   // of normalizations
  double momentum = 0.99;  // of their moving statistics
  Initializer kernel{};
  bool symmetric = false;  // torchvision pads both sides alike, Keras pads the rest that a stride
                           // leaves
};

// The options of a convolution here.
struct ImageConvolution {
  Size2D strides = 1;
  bool use_bias = false;
  Activation activation = Activation::kLinear;
  bool pads = false;  // pads by itself also with a stride, as Keras does
};

class ImageNetwork {
 public:
  // Throws InvalidArgument for options that do not go together. `title` is how messages call the
  // network.
  ImageNetwork(std::string title, ImageNetworkOptions options, ImageStyle style);

  Weights& weights() { return weights_; }
  const ImageNetworkOptions& options() const { return options_; }
  SymbolicTensor input() const { return input_; }

  // Convolves with as much padding as keeps the size, if the stride is 1; with a stride it takes
  // only whole windows, and follows a pad().
  SymbolicTensor convolution(const SymbolicTensor& x, int64_t filters, int64_t kernel,
                             const std::string& name, const ModuleNames& modules,
                             ImageConvolution convolution = {});
  SymbolicTensor depthwise(const SymbolicTensor& x, int64_t kernel, int64_t stride,
                           const std::string& name, const ModuleNames& modules);
  SymbolicTensor normalized(const SymbolicTensor& x, const std::string& name,
                            const ModuleNames& modules);
  SymbolicTensor activated(const SymbolicTensor& x, const Activation& activation,
                           const std::string& name);
  // Adds the zeros that a window of this size with a stride of 2 wants.
  SymbolicTensor padded(const SymbolicTensor& x, int64_t kernel, const std::string& name);
  SymbolicTensor dense(const SymbolicTensor& x, int64_t units, const Activation& activation,
                       const std::string& name, const ModuleNames& modules,
                       Initializer kernel_initializer, Layout kernel_layout = layouts::transposed);

  // The names of pooling layers; empty for those Keras gives no name.
  struct PoolNames {
    std::string average, largest;
  };
  // The mean or the largest value of each channel, as options().pooling says, or all of them.
  SymbolicTensor pooled(const SymbolicTensor& x, const PoolNames& names);
  // Ends the network with `output`, and reads the weights.
  Functional finish(const SymbolicTensor& output, const std::string& default_name) const;

 private:
  std::string title_;
  ImageNetworkOptions options_;
  ImageStyle style_;
  Weights weights_;
  SymbolicTensor input_;
};

// The name in torchvision alone.
inline ModuleNames torchvision(const std::string& module) {
  return {{Weights::kTorchvision, module}};
}

// Rounds channels to a multiple of 8 that is not less than nine tenths of them.
int64_t divisible_channels(double channels);

}  // namespace muster::inline v0_1::internal
