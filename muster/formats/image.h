// Decodes JPEG, PNG, BMP and GIF (its first frame) to pixels, and encodes PNG: uint8, rows from top
// to bottom, channels last. The first bytes tell the kind, whatever the file is called. A caller
// may ask for a part of the image and for a smaller size, and pays for no more. Thread safety: pure
// functions.
//
// Rows below the wanted part are neither decoded nor checked, but a JPEG that is cut short is
// refused whatever part is wanted. Exif orientation and colour profiles are not applied.
//
// What is done with damage is what tf.io.decode_image does: a JPEG with wrong or missing bytes
// before its end is decoded as far as it goes, and DecodedImage::damage says what the decoder said
// of it; one that has lost its end, and any damaged PNG, BMP or GIF, is refused.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "muster/base/bytes.h"
#include "muster/base/result.h"

namespace muster::inline v0_1::formats {

// The formats that can be decoded.
enum class ImageKind { kJpeg, kPng, kBmp, kGif };

// Returns "JPEG", "PNG", "BMP" or "GIF".
std::string_view to_string(ImageKind kind);

// Returns the kind that the first bytes tell, or nullopt when it is none of them.
std::optional<ImageKind> image_kind(Bytes bytes);

// What the header of an image says.
struct ImageInfo {
  ImageKind kind = ImageKind::kJpeg;
  int64_t height = 0;  // pixels
  int64_t width = 0;
  int channels = 3;  // as stored: 1 grey, 2 grey and alpha, 3 colour, 4 colour and alpha, or CMYK
  int bits = 8;      // of a channel as stored; of a palette image, those of its colours: 8
};

// Reads the header alone; `what` is the name of the image in errors. Returns Corrupt when the bytes
// are none of these (the message shows the first of them) and when the header is damaged.
Result<ImageInfo> image_info(Bytes bytes, std::string_view what);

// A rectangle of pixels.
struct ImageRegion {
  int64_t top = 0;
  int64_t left = 0;
  int64_t height = 0;
  int64_t width = 0;
};

// Options of decode_image().
struct ImageDecodeOptions {
  // 3 gives red, green, blue; 1 gives grey (0.299 red + 0.587 green + 0.114 blue, as ITU-R BT.601
  // has it). Alpha is dropped, CMYK becomes RGB. What a GIF leaves transparent is black.
  int channels = 3;
  // 8, or 16: then each channel is a uint16 in this machine's byte order. Of an image of 16 bits
  // all are kept; those of 8 are multiplied by 257, so that white stays white.
  int bits = 8;
  // The part that is wanted, in pixels of the stored image; all of it when unset.
  std::optional<ImageRegion> region{};
  // A JPEG may be decoded at 1/8, 1/4 or 1/2 of its size: the smallest at which the region still
  // has as many rows and columns as this. 0: at full size. Others are always decoded at full size.
  int64_t min_height = 0;
  int64_t min_width = 0;
  // Images of more pixels are refused before memory is taken for them.
  int64_t max_pixels = int64_t{1} << 27;
  // A JPEG that has lost its end is decoded too: what is lost is grey.
  bool try_recover_truncated = false;
};

// Pixels [height, width, channels], and where they lie in the stored image: the stored point (x, y)
// is at (x * scale - left, y * scale - top).
struct DecodedImage {
  int64_t height = 0;
  int64_t width = 0;
  int channels = 0;
  double scale = 1;  // 1/8, 1/4, 1/2 or 1
  int64_t top = 0;
  int64_t left = 0;
  std::unique_ptr<uint8_t[]> pixels{};
  size_t capacity = 0;  // bytes there is memory for
  int bits = 8;         // of a channel: with 16, `pixels` holds uint16 numbers
  // What the decoder said first of damage that it could pass; "" when nothing is damaged.
  std::string damage{};
};

// Decodes all pixels of the region, and perhaps some around it; they equal those of a whole decode.
// Returns Corrupt, with what the decoder says, for bytes that are not an image, are damaged or are
// cut short. Returns InvalidArgument for options out of range, images of more than max_pixels, and
// kinds that are not supported (12-bit and lossless JPEG, BMP in runs, other formats known by
// name). The memory of `reuse`, an image that is not needed any more, is used again where it
// suffices, because fresh memory costs a tenth of a decode.
Result<DecodedImage> decode_image(Bytes bytes, std::string_view what,
                                  const ImageDecodeOptions& options = {}, DecodedImage reuse = {});

// Returns a PNG file of `pixels`, [height, width, channels] with 1 (grey), 2 (grey and alpha), 3
// (RGB) or 4 (RGBA) channels. Returns InvalidArgument for other channels, for a side that is not
// from 1 to 1,000,000, and when there are not this many bytes.
Result<std::string> encode_png(std::span<const uint8_t> pixels, int64_t height, int64_t width,
                               int channels);

}  // namespace muster::inline v0_1::formats
