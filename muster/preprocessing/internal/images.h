// Images that are resized and moved, as floats. Thread safety: pure functions.
#pragma once

#include <cstdint>

#include "muster/layers/resize_images.h"
#include "muster/preprocessing/fill_mode.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::internal {

// Returns images [height, width, channels] or a batch of them; other dtypes than floating ones
// become float32. Throws InvalidArgument "RandomFlip: expected images ..." for other numbers of
// axes.
Tensor to_images(const char* layer, const Tensor& input);

// Returns [..., height, width, channels]; gradients flow. Throws InvalidArgument for images without
// pixels.
Tensor resize_images(const char* layer, const Tensor& images, int64_t height, int64_t width,
                     Interpolation interpolation);
// The same of the largest part in the middle that has the wanted aspect ratio.
Tensor crop_and_resize_images(const char* layer, const Tensor& images, int64_t height,
                              int64_t width, Interpolation interpolation);

// Says where the pixel (x, y) of the result is in the image: at (xx * x + xy * y + x0, yx * x + yy
// * y + y0). Pixels are points here, as in TensorFlow.
struct AffineMap {
  double xx{}, xy{}, x0{};
  double yx{}, yy{}, y0{};
};

// The values beyond the image, and between its pixels.
struct Sampling {
  FillMode fill_mode{};
  Interpolation interpolation{};  // kNearest or kBilinear
  double fill_value{};
};

// Moves one image [height, width, channels]; gradients flow.
Tensor transform_image(const Tensor& image, const AffineMap& map, const Sampling& sampling);

}  // namespace muster::inline v0_1::internal
