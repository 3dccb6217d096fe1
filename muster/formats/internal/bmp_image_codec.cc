// BMP as Windows and OS/2 wrote it, except for run-length encoded pixels and embedded JPEGs. No
// library of Debian reads only BMP, and there is nothing to unpack.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <utility>
#include <vector>

#include "muster/formats/internal/image_codec.h"

namespace muster::inline v0_1::formats::internal {
namespace {

constexpr size_t kFileHeader = 14;
constexpr uint32_t kOldHeader = 12, kWindowsHeader = 40, kHeaderWithMasks = 52;
constexpr uint32_t kPlain = 0, kMasks = 3, kMasksWithAlpha = 6;

// The bits of a pixel that are one colour.
struct BmpMask {
  uint32_t mask = 0;

  uint8_t of(uint32_t pixel) const {
    if (mask == 0) return 0;
    const uint64_t most = mask >> std::countr_zero(mask);
    const uint64_t value = (pixel & mask) >> std::countr_zero(mask);
    return static_cast<uint8_t>((value * 255 + most / 2) / most);
  }
};

class BmpReader {
 public:
  BmpReader(Bytes bytes, std::string_view what) : bytes_(bytes), what_(what) {}

  // Reads the part before the pixels.
  Status read_header() {
    const auto header_bytes = at<uint32_t>(kFileHeader);
    const bool is_old = header_bytes == kOldHeader;
    if ((!is_old && header_bytes < kWindowsHeader) ||
        header_bytes > bytes_.size() - std::min(bytes_.size(), kFileHeader)) {
      return damaged(fmt::format("its header cannot have {} bytes", header_bytes));
    }
    int64_t height = 0;
    if (is_old) {
      width_ = at<uint16_t>(18);
      height = at<uint16_t>(20);
      bits_ = at<uint16_t>(24);
    } else {
      width_ = at<int32_t>(18);
      height = at<int32_t>(22);
      bits_ = at<uint16_t>(28);
    }
    top_down_ = height < 0;
    height_ = top_down_ ? -height : height;
    if (width_ < 1 || height_ < 1)
      return damaged(fmt::format("it cannot have {} x {} pixels", height, width_));
    const uint32_t packing = is_old ? kPlain : at<uint32_t>(30);
    const bool has_masks = packing == kMasks || packing == kMasksWithAlpha;
    if (packing != kPlain && !has_masks) {
      return unsupported_image(
          ImageKind::kBmp, what_,
          packing <= 2 ? "its pixels are written as runs" : "its pixels are packed in another way");
    }
    constexpr std::array<int, 6> kBits = {1, 4, 8, 16, 24, 32};
    if (std::ranges::find(kBits, bits_) == kBits.end() || (has_masks && bits_ < 16))
      return damaged(fmt::format("it cannot have {} bits a pixel", bits_));
    masks_ = bits_ == 16 ? std::array<BmpMask, 3>{{{0x7c00}, {0x3e0}, {0x1f}}}
                         : std::array<BmpMask, 3>{{{0xff0000}, {0xff00}, {0xff}}};
    size_t palette_at = kFileHeader + header_bytes;
    if (has_masks) {
      constexpr size_t kMasksAt = kFileHeader + kWindowsHeader;
      if (bytes_.size() < kMasksAt + 12) return damaged("it is cut short in its header");
      for (size_t c = 0; c < 3; ++c) masks_[c].mask = at<uint32_t>(kMasksAt + 4 * c);
      // The first version has them after its header.
      if (header_bytes < kHeaderWithMasks) palette_at += packing == kMasks ? 12 : 16;
    }
    if (bits_ <= 8) {
      const Status read = read_palette(palette_at, is_old ? 3 : 4, is_old ? 0 : at<uint32_t>(46));
      if (!read.ok()) return read;
    }
    pixels_at_ = at<uint32_t>(10);
    // Rows are padded to multiples of 4 bytes; after the last row the padding may be missing.
    row_bytes_ = (width_ * bits_ + 31) / 32 * 4;
    int64_t needed = 0;
    if (__builtin_mul_overflow(row_bytes_, height_ - 1, &needed) ||
        __builtin_add_overflow(needed, (width_ * bits_ + 7) / 8, &needed))
      needed = std::numeric_limits<int64_t>::max();
    const auto there = static_cast<int64_t>(bytes_.size()) - static_cast<int64_t>(pixels_at_);
    if (there < needed) {
      return damaged(
          fmt::format("it is cut short: {} x {} pixels of {} bits take {} bytes, and {} "
                      "are there",
                      height_, width_, bits_, needed, std::max<int64_t>(there, 0)));
    }
    return {};
  }

  ImageInfo info() const {
    return {.kind = ImageKind::kBmp, .height = height_, .width = width_, .channels = 3, .bits = 8};
  }

  Result<DecodedImage> decode(const ImageRegion& region, int channels, DecodedImage reuse) const {
    return image_of_rows(region, channels, std::move(reuse), [&](int64_t y, uint8_t* rgb) {
      const int64_t stored = region.top + y;
      const auto* row = reinterpret_cast<const uint8_t*>(bytes_.data()) + pixels_at_ +
                        (top_down_ ? stored : height_ - 1 - stored) * row_bytes_;
      for (int64_t x = 0; x < region.width; ++x) read_pixel(row, region.left + x, rgb + x * 3);
    });
  }

 private:
  Error damaged(const std::string& problem) const {
    return damaged_image(ImageKind::kBmp, what_, problem);
  }

  // REQUIRES: the bytes exist, which image_kind() and read_header() have ensured; the fields of a
  // shorter header are 0.
  template <typename Number>
  Number at(size_t offset) const {
    if (bytes_.size() < offset + sizeof(Number)) return 0;
    return load_little_endian<Number>(bytes_.data() + offset);
  }

  // Colours of `width` bytes: blue, green, red. Indices after the last are black.
  Status read_palette(size_t begin, size_t width, uint32_t used) {
    const size_t most = size_t{1} << bits_;
    const size_t count = used == 0 ? most : std::min<size_t>(used, most);
    if (bytes_.size() < begin || bytes_.size() - begin < count * width)
      return damaged("it is cut short in its palette");
    palette_.resize(most);
    for (size_t i = 0; i < count; ++i) {
      for (size_t c = 0; c < 3; ++c)
        palette_[i][c] = std::to_integer<uint8_t>(bytes_[begin + i * width + 2 - c]);
    }
    return {};
  }

  void read_pixel(const uint8_t* row, int64_t x, uint8_t* rgb) const {
    if (bits_ <= 8) {
      const int64_t bit = x * bits_;
      const int shift = static_cast<int>(8 - bits_ - bit % 8);
      std::ranges::copy(palette_[static_cast<size_t>((row[bit / 8] >> shift) & ((1 << bits_) - 1))],
                        rgb);
    } else if (bits_ == 24) {
      for (int c = 0; c < 3; ++c) rgb[c] = row[3 * x + 2 - c];
    } else {
      const uint32_t pixel = bits_ == 16 ? load_little_endian<uint16_t>(row + 2 * x)
                                         : load_little_endian<uint32_t>(row + 4 * x);
      for (size_t c = 0; c < 3; ++c) rgb[c] = masks_[c].of(pixel);
    }
  }

  Bytes bytes_;
  std::string_view what_;
  int64_t width_ = 0, height_ = 0, row_bytes_ = 0;
  int bits_ = 0;  // of a pixel
  bool top_down_ = false;
  size_t pixels_at_ = 0;
  std::array<BmpMask, 3> masks_;
  std::vector<std::array<uint8_t, 3>> palette_;
};

}  // namespace

Result<ImageInfo> bmp_info(Bytes bytes, std::string_view what) {
  return info_by<BmpReader>(bytes, what);
}

Result<DecodedImage> decode_bmp(Bytes bytes, std::string_view what,
                                const ImageDecodeOptions& options, DecodedImage reuse) {
  return decode_by<BmpReader>(bytes, what, options, std::move(reuse));
}

}  // namespace muster::inline v0_1::formats::internal
