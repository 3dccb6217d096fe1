#include "muster/formats/image.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/base/strings.h"
#include "muster/formats/internal/image_codecs.h"

namespace muster::inline v0_1::formats {
namespace {

constexpr std::string_view kJpegStart = "\xff\xd8\xff";
constexpr std::string_view kPngStart = "\x89PNG\r\n\x1a\n";

Error no_image(Bytes bytes, std::string_view what) {
  if (bytes.empty()) return corrupt(fmt::format("'{}' is empty, and no image", what));
  return corrupt(fmt::format("'{}' is neither JPEG nor PNG: it starts with {}", what,
                             hex_bytes(bytes.first(std::min<size_t>(bytes.size(), 8)))),
                 "convert it to one of them, or leave it out");
}

}  // namespace

std::string_view to_string(ImageKind kind) { return kind == ImageKind::kJpeg ? "JPEG" : "PNG"; }

std::optional<ImageKind> image_kind(Bytes bytes) {
  const std::string_view text = text_of(bytes);
  if (text.starts_with(kJpegStart)) return ImageKind::kJpeg;
  if (text.starts_with(kPngStart)) return ImageKind::kPng;
  return std::nullopt;
}

Result<ImageInfo> image_info(Bytes bytes, std::string_view what) {
  const std::optional<ImageKind> kind = image_kind(bytes);
  if (!kind) return no_image(bytes, what);
  return *kind == ImageKind::kJpeg ? internal::jpeg_info(bytes, what)
                                   : internal::png_info(bytes, what);
}

Result<DecodedImage> decode_image(Bytes bytes, std::string_view what,
                                  const ImageDecodeOptions& options, DecodedImage reuse) {
  if (options.channels != 1 && options.channels != 3) {
    return invalid_argument(
        fmt::format("images are decoded to 1 or 3 channels, not {}", options.channels));
  }
  const std::optional<ImageKind> kind = image_kind(bytes);
  if (!kind) return no_image(bytes, what);
  return *kind == ImageKind::kJpeg ? internal::decode_jpeg(bytes, what, options, std::move(reuse))
                                   : internal::decode_png(bytes, what, options, std::move(reuse));
}

namespace internal {

Status check_image(const ImageInfo& info, std::string_view what,
                   const ImageDecodeOptions& options) {
  // Both formats keep sizes below 2^31, so the product fits; what passes this check also fits as
  // bytes.
  if (info.height * info.width > std::min(options.max_pixels, int64_t{1} << 40)) {
    return invalid_argument(fmt::format("'{}' has {} x {} pixels, more than the limit of {}", what,
                                        info.height, info.width, options.max_pixels),
                            "leave it out, or make it smaller");
  }
  const ImageRegion region = wanted_region(info, options);
  if (region.top < 0 || region.left < 0 || region.height < 1 || region.width < 1 ||
      region.height > info.height || region.width > info.width ||
      region.top > info.height - region.height || region.left > info.width - region.width) {
    return invalid_argument(fmt::format(
        "the region of {} x {} pixels at row {}, column {} is not inside of '{}', which "
        "has {} x {}",
        region.height, region.width, region.top, region.left, what, info.height, info.width));
  }
  return {};
}

ImageRegion wanted_region(const ImageInfo& info, const ImageDecodeOptions& options) {
  return options.region.value_or(ImageRegion{0, 0, info.height, info.width});
}

void allocate_pixels(DecodedImage& image) {
  const auto size = static_cast<size_t>(image.height * image.width * image.channels);
  if (image.pixels != nullptr && size <= image.capacity) return;
  image.pixels = std::make_unique_for_overwrite<uint8_t[]>(size);
  image.capacity = size;
}

void rgb_to_grey(const uint8_t* rgb, uint8_t* grey, int64_t count) {
  // 16-bit fixed point with rounding gives the same numbers as the luma of a JPEG.
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t sum =
        19595u * rgb[3 * i] + 38470u * rgb[3 * i + 1] + 7471u * rgb[3 * i + 2] + 32768u;
    grey[i] = static_cast<uint8_t>(sum >> 16);
  }
}

Error damaged_image(ImageKind kind, std::string_view what, std::string_view problem) {
  return corrupt(fmt::format("'{}' is a damaged {}: {}", what, to_string(kind), problem),
                 "copy or download the file again, or leave it out");
}

Error unsupported_image(ImageKind kind, std::string_view what, std::string_view problem) {
  return invalid_argument(
      fmt::format("not supported: '{}', a {}: {}", what, to_string(kind), problem),
      "convert it to an 8-bit JPEG or to PNG");
}

}  // namespace internal
}  // namespace muster::inline v0_1::formats
