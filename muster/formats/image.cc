#include "muster/formats/image.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/base/strings.h"
#include "muster/formats/internal/image_codec.h"

namespace muster::inline v0_1::formats {
namespace {

constexpr std::string_view kJpegStart = "\xff\xd8\xff";
constexpr std::string_view kPngStart = "\x89PNG\r\n\x1a\n";
constexpr std::string_view kBmpStart = "BM";
constexpr size_t kBmpHeader = 26;
// The header of 14 bytes is followed by another, which says its length first: at most this one, so
// that no text is taken for a BMP. (Two numbers before it are for programs to use, and may be
// anything.)
constexpr size_t kBmpInfoAt = 14;
constexpr uint32_t kMostBmpInfo = 124;

// The name of a format that is known, but not decoded; "" for others.
std::string_view other_format(std::string_view text) {
  if (text.starts_with("RIFF") && text.substr(0, 12).ends_with("WEBP")) return "WebP";
  if (text.starts_with(std::string_view("II*\0", 4)) ||
      text.starts_with(std::string_view("MM\0*", 4)))
    return "TIFF";
  const std::string_view brand = text.size() >= 12 ? text.substr(4, 8) : "";
  if (brand == "ftypheic" || brand == "ftypheix" || brand == "ftypmif1") return "HEIC";
  if (brand == "ftypavif") return "AVIF";
  if (text.starts_with("<")) return "page or drawing in text (HTML, SVG)";
  return "";
}

Error no_image(Bytes bytes, std::string_view what) {
  if (bytes.empty()) return corrupt(fmt::format("'{}' is empty, and no image", what));
  const std::string start = hex_bytes(bytes.first(std::min<size_t>(bytes.size(), 8)));
  constexpr const char* kHint = "convert it to JPEG or PNG, or leave it out";
  if (const std::string_view other = other_format(text_of(bytes)); !other.empty())
    return corrupt(
        fmt::format("not supported: '{}' is a {}: it starts with {}", what, other, start), kHint);
  return corrupt(fmt::format("'{}' is not a JPEG, PNG, BMP or GIF: it starts with {}", what, start),
                 kHint);
}

// Pixels of 8 bits as 16.
DecodedImage widened(DecodedImage image) {
  DecodedImage wide = std::move(image);
  const std::unique_ptr<uint8_t[]> narrow = std::move(wide.pixels);
  wide.bits = 16;
  wide.capacity = 0;
  internal::allocate_pixels(wide);
  auto* to = reinterpret_cast<uint16_t*>(wide.pixels.get());
  const int64_t count = wide.height * wide.width * wide.channels;
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<uint16_t>(257 * narrow[i]);
  return wide;
}

}  // namespace

std::string_view to_string(ImageKind kind) {
  constexpr std::string_view kNames[] = {"JPEG", "PNG", "BMP", "GIF"};
  return kNames[static_cast<int>(kind)];
}

std::optional<ImageKind> image_kind(Bytes bytes) {
  const std::string_view text = text_of(bytes);
  if (text.starts_with(kJpegStart)) return ImageKind::kJpeg;
  if (text.starts_with(kPngStart)) return ImageKind::kPng;
  if (text.starts_with("GIF87a") || text.starts_with("GIF89a")) return ImageKind::kGif;
  if (text.starts_with(kBmpStart) && text.size() >= kBmpHeader &&
      load_little_endian<uint32_t>(text.data() + kBmpInfoAt) <= kMostBmpInfo)
    return ImageKind::kBmp;
  return std::nullopt;
}

Result<ImageInfo> image_info(Bytes bytes, std::string_view what) {
  const std::optional<ImageKind> kind = image_kind(bytes);
  if (!kind) return no_image(bytes, what);
  switch (*kind) {
    case ImageKind::kJpeg:
      return internal::jpeg_info(bytes, what);
    case ImageKind::kPng:
      return internal::png_info(bytes, what);
    case ImageKind::kBmp:
      return internal::bmp_info(bytes, what);
    default:
      return internal::gif_info(bytes, what);
  }
}

Result<DecodedImage> decode_image(Bytes bytes, std::string_view what,
                                  const ImageDecodeOptions& options, DecodedImage reuse) {
  if (options.channels != 1 && options.channels != 3) {
    return invalid_argument(
        fmt::format("images are decoded to 1 or 3 channels, not {}", options.channels));
  }
  if (options.bits != 8 && options.bits != 16) {
    return invalid_argument(
        fmt::format("images are decoded to 8 or 16 bits, not {}", options.bits));
  }
  const std::optional<ImageKind> kind = image_kind(bytes);
  if (!kind) return no_image(bytes, what);
  const auto decode = *kind == ImageKind::kJpeg  ? internal::decode_jpeg
                      : *kind == ImageKind::kPng ? internal::decode_png
                      : *kind == ImageKind::kBmp ? internal::decode_bmp
                                                 : internal::decode_gif;
  Result<DecodedImage> image = decode(bytes, what, options, std::move(reuse));
  if (!image.ok() || image.value().bits == options.bits) return image;
  return widened(std::move(image).value());
}

namespace internal {

Status check_image(const ImageInfo& info, std::string_view what,
                   const ImageDecodeOptions& options) {
  // Both formats keep sizes below 2^31, so the product fits; an image that passes this check also
  // fits as bytes.
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
  const auto size =
      static_cast<size_t>(image.height * image.width * image.channels * (image.bits / 8));
  if (image.pixels != nullptr && size <= image.capacity) return;
  image.pixels = std::make_unique_for_overwrite<uint8_t[]>(size);
  image.capacity = size;
}

DecodedImage image_of(const ImageRegion& region, int channels, DecodedImage reuse) {
  DecodedImage image;
  image.pixels = std::move(reuse.pixels);
  image.capacity = reuse.capacity;
  image.height = region.height;
  image.width = region.width;
  image.channels = channels;
  image.top = region.top;
  image.left = region.left;
  allocate_pixels(image);
  return image;
}

Error damaged_image(ImageKind kind, std::string_view what, std::string_view problem,
                    const char* hint) {
  return corrupt(fmt::format("'{}' is a damaged {}: {}", what, to_string(kind), problem), hint);
}

Error unsupported_image(ImageKind kind, std::string_view what, std::string_view problem) {
  return invalid_argument(
      fmt::format("not supported: '{}', a {}: {}", what, to_string(kind), problem),
      "convert it to an 8-bit JPEG or to PNG");
}

}  // namespace internal
}  // namespace muster::inline v0_1::formats
