// Operations on images that are tensors: one image [height, width, channels], or a batch of them
// [batch, height, width, channels]; the result has the same number of axes. Use them in map(),
// before or after batch(). They have no gradient. Thread safety: pure functions; the random ones
// return the same for the same key, and each image of a batch uses its own key, key.derive(row).
//
// All throw InvalidArgument for tensors with another number of axes, and for unsupported dtypes.
#pragma once

#include <cstdint>
#include <span>

#include "muster/base/export.h"
#include "muster/base/random.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::data {

// How resize() computes a pixel.
enum class ResizeMethod {
  kBilinear,  // uint8 and float32
  kNearest,   // the input pixel below the middle of the output pixel; any dtype
};

// Options of resize().
struct ResizeOptions {
  ResizeMethod method = ResizeMethod::kBilinear;
  // For kBilinear when the image shrinks: each output pixel is a weighted mean of all input pixels
  // that it covers. False: only the four nearest count, which is faster but causes aliasing.
  bool antialias = true;
};

// Returns [..., height, width, channels] of the same dtype; uint8 is rounded. Pixels are squares
// whose middles lie at one half, as in PIL, torchvision and tf.image. Throws InvalidArgument for
// sizes below 1 and images without pixels.
MUSTER_EXPORT Tensor resize(const Tensor& images, int64_t height, int64_t width,
                            const ResizeOptions& options = {});

// Returns the middle part [..., height, width, channels], as a view. If the exact middle lies
// between pixels, the part is half a pixel up and left of it. Throws InvalidArgument when the
// images are smaller.
MUSTER_EXPORT Tensor center_crop(const Tensor& images, int64_t height, int64_t width);

// Returns a random part [..., height, width, channels]; each position is equally likely. Throws
// InvalidArgument when the images are smaller.
MUSTER_EXPORT Tensor random_crop(const Tensor& images, int64_t height, int64_t width,
                                 RandomKey key);

// Mirrors the images left to right; the shape is unchanged.
MUSTER_EXPORT Tensor flip_left_right(const Tensor& images);

// Mirrors each image with this probability. Throws InvalidArgument for a probability outside of 0
// to 1.
MUSTER_EXPORT Tensor random_flip_left_right(const Tensor& images, RandomKey key,
                                            double probability = 0.5);

// Divides uint8 pixels by 255; the result is float32 in [0, 1]. Throws InvalidArgument for other
// dtypes.
MUSTER_EXPORT Tensor to_float(const Tensor& images);

// Returns (images - mean) / std, float32, with one number of `mean` and `std` for each channel.
// Throws InvalidArgument for other dtypes than float32, if the number of means or stds differs from
// the number of channels, and for a std that is not above 0.
MUSTER_EXPORT Tensor normalize(const Tensor& images, std::span<const double> mean,
                               std::span<const double> std);

}  // namespace muster::inline v0_1::data
