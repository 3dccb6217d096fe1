// The decoders that implement image.h. Thread safety: pure functions.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "muster/formats/image.h"

namespace muster::inline v0_1::formats::internal {

Result<ImageInfo> jpeg_info(Bytes bytes, std::string_view what);
Result<ImageInfo> png_info(Bytes bytes, std::string_view what);
Result<ImageInfo> bmp_info(Bytes bytes, std::string_view what);
Result<ImageInfo> gif_info(Bytes bytes, std::string_view what);

// REQUIRES: channels and bits that decode_image() has passed. Only PNG looks at bits; the others
// give 8.
Result<DecodedImage> decode_jpeg(Bytes bytes, std::string_view what,
                                 const ImageDecodeOptions& options, DecodedImage reuse);
Result<DecodedImage> decode_png(Bytes bytes, std::string_view what,
                                const ImageDecodeOptions& options, DecodedImage reuse);
Result<DecodedImage> decode_bmp(Bytes bytes, std::string_view what,
                                const ImageDecodeOptions& options, DecodedImage reuse);
Result<DecodedImage> decode_gif(Bytes bytes, std::string_view what,
                                const ImageDecodeOptions& options, DecodedImage reuse);

// Checks that an image of this size may be decoded with these options.
Status check_image(const ImageInfo& info, std::string_view what, const ImageDecodeOptions& options);

// Returns options.region, or the whole image when it is unset.
ImageRegion wanted_region(const ImageInfo& info, const ImageDecodeOptions& options);

// Gives the image memory for its sizes, unless it has enough.
void allocate_pixels(DecodedImage& pixels);

// Turns `count` RGB pixels of uint8 or uint16 into grey ones; the two may share their memory.
template <typename Level>
void rgb_to_grey(const Level* rgb, Level* grey, int64_t count) {
  // 16-bit fixed point with rounding gives the same numbers as the luma of a JPEG.
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t sum =
        19595u * rgb[3 * i] + 38470u * rgb[3 * i + 1] + 7471u * rgb[3 * i + 2] + 32768u;
    grey[i] = static_cast<Level>(sum >> 16);
  }
}

// Makes an image of the region, which has memory for its pixels: at full size, with 8 bits.
DecodedImage image_of(const ImageRegion& region, int channels, DecodedImage reuse);

// The same, with its pixels: read_row(y, rgb) writes a row of the region, counted from its top.
template <typename ReadRow>
DecodedImage image_of_rows(const ImageRegion& region, int channels, DecodedImage reuse,
                           const ReadRow& read_row) {
  DecodedImage image = image_of(region, channels, std::move(reuse));
  std::vector<uint8_t> rgb(static_cast<size_t>(region.width) * 3);
  for (int64_t y = 0; y < region.height; ++y) {
    uint8_t* to = image.pixels.get() + y * region.width * channels;
    read_row(y, rgb.data());
    if (channels == 3) {
      std::ranges::copy(rgb, to);
    } else {
      rgb_to_grey(rgb.data(), to, region.width);
    }
  }
  return image;
}

// The interface of a Reader of one format: read_header(), info(), and decode() of a region.
template <typename Reader>
Result<ImageInfo> info_by(Bytes bytes, std::string_view what) {
  Reader reader(bytes, what);
  if (Status read = reader.read_header(); !read.ok()) return read.error();
  return reader.info();
}

template <typename Reader>
Result<DecodedImage> decode_by(Bytes bytes, std::string_view what,
                               const ImageDecodeOptions& options, DecodedImage reuse) {
  Reader reader(bytes, what);
  if (Status read = reader.read_header(); !read.ok()) return read.error();
  const ImageInfo info = reader.info();
  if (Status fit = check_image(info, what, options); !fit.ok()) return fit.error();
  return reader.decode(wanted_region(info, options), options.channels, std::move(reuse));
}

// The error for a damaged image `what`; `problem` is the decoder's message.
Error damaged_image(ImageKind kind, std::string_view what, std::string_view problem,
                    const char* hint = "copy or download the file again, or leave it out");
// The error for an image that is whole, but of a kind that is not decoded.
Error unsupported_image(ImageKind kind, std::string_view what, std::string_view problem);

}  // namespace muster::inline v0_1::formats::internal
