// Operations on images that are tensors: one image [height, width, channels], or a batch of them
// [batch, height, width, channels]; what comes out has the same number of axes. For map(), before
// or after batch(). Nothing is differentiated. Thread safety: pure functions; the random ones give
// the same for the same key, and each image of a batch draws for itself, from key.derive(row).
//
// All throw InvalidArgument for tensors with another number of axes, and for dtypes they do not
// know.
#pragma once

#include <cstdint>
#include <span>

#include "muster/base/random.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::data {

// How resize() finds a pixel.
enum class ResizeMethod {
  kBilinear,  // uint8 and float32
  kNearest,   // the input pixel below the middle of the output pixel; any dtype
};

// Options of resize().
struct ResizeOptions {
  ResizeMethod method = ResizeMethod::kBilinear;
  // kBilinear, where the image shrinks: each output pixel is a mean of all input pixels below it.
  // false: of the four nearest alone, which is quicker, and flickers.
  bool antialias = true;
};

// [..., height, width, channels] of the same dtype; uint8 is rounded. Pixels are squares, their
// middles at one half (as PIL, torchvision and tf.image have it). Throws InvalidArgument for sizes
// below 1 and images without pixels.
Tensor resize(const Tensor& images, int64_t height, int64_t width,
              const ResizeOptions& options = {});

// The middle [..., height, width, channels], a view; where it cannot be in the middle, half a pixel
// up and left. Throws InvalidArgument when the images are smaller.
Tensor center_crop(const Tensor& images, int64_t height, int64_t width);

// A part of this size, each place as likely. Throws InvalidArgument when the images are smaller.
Tensor random_crop(const Tensor& images, int64_t height, int64_t width, RandomKey key);

// Mirrored, left to right.
Tensor flip_left_right(const Tensor& images);

// Each image mirrored with this probability. Throws InvalidArgument for one outside of 0 to 1.
Tensor random_flip_left_right(const Tensor& images, RandomKey key, double probability = 0.5);

// float32: uint8 pixels divided by 255. Throws InvalidArgument for other dtypes.
Tensor to_float(const Tensor& images);

// (images - mean) / std, one number for each channel; float32. Throws InvalidArgument for other
// dtypes, as many numbers as there are not channels, and for a std that is not above 0.
Tensor normalize(const Tensor& images, std::span<const double> mean, std::span<const double> std);

}  // namespace muster::inline v0_1::data
