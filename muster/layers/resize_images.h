// Images of another size. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/export.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// How a new pixel is made of those of the old image. Pixels are squares whose middles lie at one
// half, so the middle of new pixel i is at (i + 1/2) * old size / new size of the old image.
//
// kNearest takes the pixel that is there. kArea takes the mean over the part of the old image that
// a new pixel covers. The others weigh old pixels by their distance d from the middle, each axis by
// itself; weights are divided by their sum, and there are none outside of the image. However much
// an image shrinks the weights stay as wide (no antialiasing), so details may be skipped: kArea
// skips none.
//   kBilinear       1 - d, up to 1; beyond the middles at the edge the pixel there alone
//   kBicubic        1.5 d^3 - 2.5 d^2 + 1 up to 1, -0.5 d^3 + 2.5 d^2 - 4 d + 2 up to 2 (Keys,
//   1981) kLanczos3       3 sin(pi d) sin(pi d / 3) / (pi d)^2, up to 3 kLanczos5       5 sin(pi d)
//   sin(pi d / 5) / (pi d)^2, up to 5 kGaussian       exp(-2 d^2), up to 1.5 kMitchellCubic  (7 d^3
//   - 12 d^2 + 16 / 3) / 6 up to 1,
//                   (-7 / 3 d^3 + 12 d^2 - 20 d + 32 / 3) / 6 up to 2 (Mitchell and Netravali,
//                   1988)
enum class Interpolation {
  kNearest,
  kBilinear,
  kBicubic,
  kArea,
  kLanczos3,
  kLanczos5,
  kGaussian,
  kMitchellCubic
};

// Gives "kBicubic".
MUSTER_EXPORT std::string describe(Interpolation interpolation);

// Resizes floating images [batch, height, width, channels] to [batch, height, width, channels] of
// the new size, as tf.image.resize(antialias=False) does; gradients flow. Throws InvalidArgument
// for sizes below 1, for other numbers of axes or integers, and for images without pixels. (Bytes
// in a pipeline are quicker with data::resize().)
MUSTER_EXPORT Tensor resize_images(const Tensor& images, int64_t height, int64_t width,
                                   Interpolation interpolation);

}  // namespace muster::inline v0_1
