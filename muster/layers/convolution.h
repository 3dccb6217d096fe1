// Convolutions of sequences [batch, steps, channels], images [batch, height, width, channels] and
// volumes [batch, depth, height, width, channels].
// Thread safety: immutable values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "muster/base/export.h"
#include "muster/layers/activations.h"
#include "muster/layers/initializers.h"
#include "muster/layers/layer.h"
#include "muster/layers/window.h"

namespace muster::inline v0_1 {

// Options of Conv1D().
struct Conv1DOptions {
  int64_t strides = 1;
  Padding padding = Padding::kValid;
  int64_t dilation_rate = 1;
  // The number of groups into which the channels are divided, each with its own filters / groups
  // filters.
  int64_t groups = 1;
  Activation activation = Activation::kLinear;
  bool use_bias = true;
  Initializer kernel_initializer = initializers::glorot_uniform();
  Initializer bias_initializer = initializers::zeros();
  Regularizer kernel_regularizer{};
  Regularizer bias_regularizer{};
  Regularizer activity_regularizer{};
  Constraint kernel_constraint{};
  Constraint bias_constraint{};
  std::string name{};
};

// Options of Conv2D(), as those of Conv1D().
struct Conv2DOptions {
  Size2D strides = 1;
  Padding padding = Padding::kValid;
  Size2D dilation_rate = 1;
  int64_t groups = 1;
  Activation activation = Activation::kLinear;
  bool use_bias = true;
  Initializer kernel_initializer = initializers::glorot_uniform();
  Initializer bias_initializer = initializers::zeros();
  Regularizer kernel_regularizer{};
  Regularizer bias_regularizer{};
  Regularizer activity_regularizer{};
  Constraint kernel_constraint{};
  Constraint bias_constraint{};
  std::string name{};
};

// Options of Conv3D(), as those of Conv1D().
struct Conv3DOptions {
  Size3D strides = 1;
  Padding padding = Padding::kValid;
  Size3D dilation_rate = 1;
  int64_t groups = 1;
  Activation activation = Activation::kLinear;
  bool use_bias = true;
  Initializer kernel_initializer = initializers::glorot_uniform();
  Initializer bias_initializer = initializers::zeros();
  Regularizer kernel_regularizer{};
  Regularizer bias_regularizer{};
  Regularizer activity_regularizer{};
  Constraint kernel_constraint{};
  Constraint bias_constraint{};
  std::string name{};
};

// Makes a convolution. Its variables are "kernel" [the kernel's sizes, in / groups, filters] and
// "bias" [filters], of the input's dtype, which must be one of weights. Throws InvalidArgument for
// sizes below 1, if groups do not divide filters, if strides and dilation_rate are both above 1,
// and for kCausal in two or three dimensions; when called, if groups do not divide the channels.
MUSTER_EXPORT Layer Conv1D(int64_t filters, int64_t kernel_size, Conv1DOptions options = {});
MUSTER_EXPORT Layer Conv2D(int64_t filters, Size2D kernel_size, Conv2DOptions options = {});
MUSTER_EXPORT Layer Conv3D(int64_t filters, Size3D kernel_size, Conv3DOptions options = {});

// Options of Conv2DTranspose().
struct Conv2DTransposeOptions {
  Size2D strides = 1;
  Padding padding = Padding::kValid;
  std::optional<Size2D> output_padding{};  // rows and columns after the result; below the strides
  Size2D dilation_rate = 1;
  Activation activation = Activation::kLinear;
  bool use_bias = true;
  Initializer kernel_initializer = initializers::glorot_uniform();
  Initializer bias_initializer = initializers::zeros();
  Regularizer kernel_regularizer{};
  Regularizer bias_regularizer{};
  Regularizer activity_regularizer{};
  Constraint kernel_constraint{};
  Constraint bias_constraint{};
  std::string name{};
};

// Makes the transpose of a convolution from [batch, height', width', filters] to the input. With
// kSame the result has height * stride rows, with kValid max(kernel - stride, 0) more; with an
// output_padding it has (height - 1) * stride + kernel - 2 * p + output_padding, where p is kernel
// / 2 rounded down for kSame, else 0. Variables: "kernel" [kernel height, kernel width, filters,
// in], "bias" [filters]. Throws InvalidArgument as Conv2D does, and for an output_padding that is
// not below the strides.
MUSTER_EXPORT Layer Conv2DTranspose(int64_t filters, Size2D kernel_size,
                                    Conv2DTransposeOptions options = {});

// Options of DepthwiseConv2D().
struct DepthwiseConv2DOptions {
  Size2D strides = 1;
  Padding padding = Padding::kValid;
  int64_t depth_multiplier = 1;
  Size2D dilation_rate = 1;
  Activation activation = Activation::kLinear;
  bool use_bias = true;
  Initializer depthwise_initializer = initializers::glorot_uniform();
  Initializer bias_initializer = initializers::zeros();
  Regularizer depthwise_regularizer{};
  Regularizer bias_regularizer{};
  Regularizer activity_regularizer{};
  Constraint depthwise_constraint{};
  Constraint bias_constraint{};
  std::string name{};
};

// Convolves each channel with its own depth_multiplier kernels; result k * depth_multiplier + m is
// that of channel k and its kernel m. Variables: "depthwise_kernel" [kernel height, kernel width,
// in, depth_multiplier], "bias" [in * depth_multiplier]. Throws InvalidArgument as Conv2D does.
MUSTER_EXPORT Layer DepthwiseConv2D(Size2D kernel_size, DepthwiseConv2DOptions options = {});

// Options of SeparableConv2D().
struct SeparableConv2DOptions {
  Size2D strides = 1;
  Padding padding = Padding::kValid;
  Size2D dilation_rate = 1;
  int64_t depth_multiplier = 1;
  Activation activation = Activation::kLinear;
  bool use_bias = true;
  Initializer depthwise_initializer = initializers::glorot_uniform();
  Initializer pointwise_initializer = initializers::glorot_uniform();
  Initializer bias_initializer = initializers::zeros();
  Regularizer depthwise_regularizer{};
  Regularizer pointwise_regularizer{};
  Regularizer bias_regularizer{};
  Regularizer activity_regularizer{};
  Constraint depthwise_constraint{};
  Constraint pointwise_constraint{};
  Constraint bias_constraint{};
  std::string name{};
};

// Computes a DepthwiseConv2D without bias, and mixes its channels by a convolution of size 1.
// Variables: "depthwise_kernel" [kernel height, kernel width, in, depth_multiplier],
// "pointwise_kernel" [1, 1, in * depth_multiplier, filters], "bias" [filters]. Throws
// InvalidArgument as Conv2D does.
MUSTER_EXPORT Layer SeparableConv2D(int64_t filters, Size2D kernel_size,
                                    SeparableConv2DOptions options = {});

}  // namespace muster::inline v0_1
