// Bilinear resampling of images, antialiased where they shrink: each output pixel is the mean of
// the input pixels below it, weighted by a triangle as wide as two output pixels (two input pixels
// where the image grows). LibTorch's own kernel knows neither bytes nor parts of an image, and does
// one channel after the other. Thread safety: pure functions.
#pragma once

#include <cstdint>

namespace muster::inline v0_1::data::internal {

// A part of an image, in its pixels, with fractions: pixel i covers [i, i + 1).
struct ResampleBox {
  double top = 0;
  double left = 0;
  double height = 0;
  double width = 0;
};

// Options of resample().
struct ResampleOptions {
  bool antialias = true;  // false: two input pixels in each direction, however much it shrinks
  bool flip = false;      // the output is mirrored, left to right
  // For each channel, the factor of the output, and the addend; none if null.
  const float* scale = nullptr;
  const float* offset = nullptr;
};

// `in` [height, width, channels] to `out` [out_height, out_width, channels], for the pairs of types
// uint8 to uint8 (rounded), and uint8, uint16 and float to float. Pixels outside of the box are not
// looked at. REQUIRES: all sizes at least 1, the box inside of the image and not empty.
template <typename In, typename Out>
void resample(const In* in, int64_t height, int64_t width, int64_t channels, const ResampleBox& box,
              Out* out, int64_t out_height, int64_t out_width, const ResampleOptions& options = {});

}  // namespace muster::inline v0_1::data::internal
