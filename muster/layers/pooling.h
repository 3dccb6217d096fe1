// Pooling of sequences [batch, steps, channels], images [batch, height, width, channels] and
// volumes [batch, depth, height, width, channels].
// Thread safety: immutable values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "muster/base/export.h"
#include "muster/layers/layer.h"
#include "muster/layers/window.h"

namespace muster::inline v0_1 {

// Options of MaxPooling1D() and AveragePooling1D().
struct Pooling1DOptions {
  int64_t pool_size = 2;
  std::optional<int64_t> strides{};  // pool_size when unset
  Padding padding = Padding::kValid;
  std::string name{};
};

// Options of MaxPooling2D() and AveragePooling2D().
struct Pooling2DOptions {
  Size2D pool_size = 2;
  std::optional<Size2D> strides{};  // pool_size when unset
  Padding padding = Padding::kValid;
  std::string name{};
};
// The former name of Pooling2DOptions.
using MaxPooling2DOptions = Pooling2DOptions;

// Options of MaxPooling3D() and AveragePooling3D().
struct Pooling3DOptions {
  Size3D pool_size = 2;
  std::optional<Size3D> strides{};  // pool_size when unset
  Padding padding = Padding::kValid;
  std::string name{};
};

// Returns the largest value of each window; padding is ignored. Throws InvalidArgument for sizes
// below 1 and for kCausal.
MUSTER_EXPORT Layer MaxPooling1D(Pooling1DOptions options = {});
MUSTER_EXPORT Layer MaxPooling2D(Pooling2DOptions options = {});
MUSTER_EXPORT Layer MaxPooling3D(Pooling3DOptions options = {});

// Returns the mean of each window without padding. Throws InvalidArgument as MaxPooling does.
MUSTER_EXPORT Layer AveragePooling1D(Pooling1DOptions options = {});
MUSTER_EXPORT Layer AveragePooling2D(Pooling2DOptions options = {});
MUSTER_EXPORT Layer AveragePooling3D(Pooling3DOptions options = {});

// Options of the global poolings.
struct GlobalPoolingOptions {
  bool keepdims = false;  // keeps the axes between batch and channels, with size 1
  std::string name{};
};

// Returns the largest value of each channel: [batch, ..., channels] -> [batch, channels].
MUSTER_EXPORT Layer GlobalMaxPooling1D(GlobalPoolingOptions options = {});
MUSTER_EXPORT Layer GlobalMaxPooling2D(GlobalPoolingOptions options = {});
MUSTER_EXPORT Layer GlobalMaxPooling3D(GlobalPoolingOptions options = {});

// Returns the mean of each channel: [batch, ..., channels] -> [batch, channels]. The 1D layer
// accepts a mask [batch, steps], and returns the mean over the steps that count.
MUSTER_EXPORT Layer GlobalAveragePooling1D(GlobalPoolingOptions options = {});
MUSTER_EXPORT Layer GlobalAveragePooling2D(GlobalPoolingOptions options = {});
MUSTER_EXPORT Layer GlobalAveragePooling3D(GlobalPoolingOptions options = {});

}  // namespace muster::inline v0_1
