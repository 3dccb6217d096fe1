// Convolution and pooling of images [batch, height, width, channels].
// Thread safety: immutable values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "muster/layers/activations.h"
#include "muster/layers/initializers.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// kValid: only whole windows. kSame: as many outputs as ceil(size / stride); where the padding is
// odd, the extra row or column lies at the bottom or right, as in TensorFlow.
enum class Padding { kValid, kSame };

// A Size2D has a height and a width; a single number means both.
struct Size2D {
  Size2D(int64_t both) : height(both), width(both) {}  // NOLINT(google-explicit-constructor)
  Size2D(int64_t height, int64_t width) : height(height), width(width) {}

  int64_t height;
  int64_t width;
};

// Options of Conv2D().
struct Conv2DOptions {
  Size2D strides = 1;
  Padding padding = Padding::kValid;
  Activation activation = Activation::kLinear;
  bool use_bias = true;
  Initializer kernel_initializer = initializers::glorot_uniform();
  Initializer bias_initializer = initializers::zeros();
  std::string name;
};

// Makes a convolution. Its variables are "kernel" [kernel height, kernel width, in, filters],
// "bias" [filters], of the input's dtype, one of weights. Throws InvalidArgument for sizes below 1.
Layer Conv2D(int64_t filters, Size2D kernel_size, Conv2DOptions options = {});

// Options of MaxPooling2D().
struct MaxPooling2DOptions {
  Size2D pool_size = 2;
  std::optional<Size2D> strides;  // pool_size when unset
  Padding padding = Padding::kValid;
  std::string name;
};

// Gives the largest value of each window; padding never wins. Throws InvalidArgument for sizes
// below 1.
Layer MaxPooling2D(MaxPooling2DOptions options = {});

}  // namespace muster::inline v0_1
