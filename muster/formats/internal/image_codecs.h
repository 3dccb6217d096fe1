// The two decoders behind image.h. Thread safety: pure functions.
#pragma once

#include <span>
#include <string>

#include "muster/formats/image.h"

namespace muster::inline v0_1::formats::internal {

Result<ImageInfo> jpeg_info(Bytes bytes, std::string_view what);
Result<ImageInfo> png_info(Bytes bytes, std::string_view what);

// REQUIRES: options that check_image() has passed.
Result<DecodedImage> decode_jpeg(Bytes bytes, std::string_view what,
                                 const ImageDecodeOptions& options, DecodedImage reuse);
Result<DecodedImage> decode_png(Bytes bytes, std::string_view what,
                                const ImageDecodeOptions& options, DecodedImage reuse);

// Checks that an image of this size may be decoded with these options.
Status check_image(const ImageInfo& info, std::string_view what, const ImageDecodeOptions& options);

// Returns options.region, or the whole image when it is unset.
ImageRegion wanted_region(const ImageInfo& info, const ImageDecodeOptions& options);

// Gives the image memory for its sizes, unless it has enough.
void allocate_pixels(DecodedImage& pixels);

// Turns `count` RGB pixels into grey ones; the two may share their memory.
void rgb_to_grey(const uint8_t* rgb, uint8_t* grey, int64_t count);

// The error for an image `what` that is damaged; `problem` is what the decoder says.
Error damaged_image(ImageKind kind, std::string_view what, std::string_view problem);
// The error for an image that is whole, but of a kind that is not decoded.
Error unsupported_image(ImageKind kind, std::string_view what, std::string_view problem);

}  // namespace muster::inline v0_1::formats::internal
