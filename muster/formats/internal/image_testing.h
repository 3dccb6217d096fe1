// For tests of images: the decoded pixels of a file, and their difference from the original.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "muster/formats/image.h"

namespace muster::inline v0_1::formats::internal {

inline DecodedImage decoded(const std::string& file, const ImageDecodeOptions& options = {}) {
  return decode_image(bytes_of(file), "a.image", options).value();
}

inline Error image_error(const std::string& file, const ImageDecodeOptions& options = {}) {
  return decode_image(bytes_of(file), "a.image", options).error();
}

inline uint8_t level_at(const DecodedImage& image, int64_t y, int64_t x, int64_t c) {
  return image.pixels[static_cast<size_t>((y * image.width + x) * image.channels + c)];
}

inline std::vector<uint8_t> pixels_of(const DecodedImage& image) {
  return {image.pixels.get(), image.pixels.get() + image.height * image.width * image.channels};
}

// Every pixel of `part` is the one a whole decode at the same scale gives, and the region is
// covered.
inline void expect_part_of(const DecodedImage& part, const DecodedImage& whole,
                           const ImageRegion& region, const std::string& which) {
  ASSERT_EQ(part.scale, whole.scale) << which;
  EXPECT_LE(part.top, region.top * part.scale) << which;
  EXPECT_LE(part.left, region.left * part.scale) << which;
  EXPECT_GE(part.top + part.height, std::min<double>((region.top + region.height) * part.scale,
                                                     static_cast<double>(whole.height)))
      << which;
  EXPECT_GE(part.left + part.width, std::min<double>((region.left + region.width) * part.scale,
                                                     static_cast<double>(whole.width)))
      << which;
  ASSERT_LE(part.top + part.height, whole.height) << which;
  ASSERT_LE(part.left + part.width, whole.width) << which;
  // Pixels that are outside of the region by a whole pixel may differ.
  const auto top = static_cast<int64_t>(std::floor(region.top * part.scale));
  const auto left = static_cast<int64_t>(std::floor(region.left * part.scale));
  const auto bottom = std::min(
      static_cast<int64_t>(std::ceil((region.top + region.height) * part.scale)), whole.height);
  const auto right = std::min(
      static_cast<int64_t>(std::ceil((region.left + region.width) * part.scale)), whole.width);
  for (int64_t y = top; y < bottom; ++y) {
    for (int64_t x = left; x < right; ++x) {
      for (int64_t c = 0; c < part.channels; ++c) {
        ASSERT_EQ(level_at(part, y - part.top, x - part.left, c), level_at(whole, y, x, c))
            << which << ": row " << y << ", column " << x;
      }
    }
  }
}

}  // namespace muster::inline v0_1::formats::internal
