// Resizes images. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/export.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// How to compute a new pixel from pixels of the old image. Pixels are squares whose centers are at
// one half, so the center of new pixel i is at (i + 1/2) * old size / new size of the old image.
//
// kNearest takes the pixel at that place. kArea takes the mean over the area of the old image that
// a new pixel covers. The others weight old pixels by their distance d from that place, separately
// for each axis; weights are divided by their sum, and pixels outside of the image have none. When
// an image shrinks, the weights keep their width (no antialiasing), so details may be lost; kArea
// loses none.
//   kBilinear       1 - d, up to 1; beyond the outermost centers only the pixel there
//   kBicubic        1.5 d^3 - 2.5 d^2 + 1 up to 1,
//                   -0.5 d^3 + 2.5 d^2 - 4 d + 2 up to 2 (Keys, 1981)
//   kLanczos3       3 sin(pi d) sin(pi d / 3) / (pi d)^2, up to 3
//   kLanczos5       5 sin(pi d) sin(pi d / 5) / (pi d)^2, up to 5
//   kGaussian       exp(-2 d^2), up to 1.5
//   kMitchellCubic  (7 d^3 - 12 d^2 + 16 / 3) / 6 up to 1,
//                   (-7 / 3 d^3 + 12 d^2 - 20 d + 32 / 3) / 6 up to 2
//                   (Mitchell and Netravali, 1988)
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

// Returns "kBicubic".
MUSTER_EXPORT std::string describe(Interpolation interpolation);

// Resizes floating-point images [batch, height, width, channels] to the new size, as
// tf.image.resize(antialias=False) does; gradients flow. Throws InvalidArgument for sizes below 1,
// for another number of axes, for integers, and for images without pixels. (For bytes in a
// pipeline, data::resize() is faster.)
MUSTER_EXPORT Tensor resize_images(const Tensor& images, int64_t height, int64_t width,
                                   Interpolation interpolation);

}  // namespace muster::inline v0_1
