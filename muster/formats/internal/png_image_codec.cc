#include <fmt/format.h>
#include <png.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "muster/base/parse_limits.h"
#include "muster/base/printable.h"
#include "muster/formats/internal/image_codec.h"

namespace muster::inline v0_1::formats::internal {
namespace {

constexpr auto kBytesPerByte = static_cast<int64_t>(kMostUnpacked);
// The most memory for a chunk that holds no pixels, such as a colour profile.
constexpr png_alloc_size_t kMostChunkBytes = png_alloc_size_t{8} << 20;

// Holds the state of libpng and the place to which it jumps after an error. All objects are
// members, so that the jump passes no destructor.
class PngReader {
 public:
  PngReader(Bytes bytes, std::string_view what) : bytes_(bytes), what_(what) {
    png_ = png_create_read_struct(
        PNG_LIBPNG_VER_STRING, this,
        [](png_structp png, png_const_charp problem) {
          static_cast<PngReader*>(png_get_error_ptr(png))->leave(problem);
        },
        [](png_structp, png_const_charp) {});
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      throw std::bad_alloc();
    }
  }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }

  Result<ImageInfo> read_header() {
    const Status read = guarded([this] {
      png_set_read_fn(png_, this, [](png_structp png, png_bytep to, size_t count) {
        static_cast<PngReader*>(png_get_io_ptr(png))->give(to, count);
      });
      png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
      png_set_chunk_malloc_max(png_, kMostChunkBytes);
      // None of these chunks changes a pixel.
      png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
      png_read_info(png_, info_);
    });
    if (!read.ok()) return read.error();
    const int type = png_get_color_type(png_, info_);
    ImageInfo info{.kind = ImageKind::kPng,
                   .height = png_get_image_height(png_, info_),
                   .width = png_get_image_width(png_, info_),
                   .channels = png_get_channels(png_, info_),
                   .bits = png_get_bit_depth(png_, info_)};
    if (type == PNG_COLOR_TYPE_PALETTE) {
      info.channels = 3;
      info.bits = 8;
    }
    return info;
  }

  // Checks that this many bytes can hold the image. REQUIRES: read_header().
  Status check_data(const ImageInfo& info) const {
    const auto row_bytes = static_cast<int64_t>(png_get_rowbytes(png_, info_));
    if (info.height <= kBytesPerByte * static_cast<int64_t>(bytes_.size()) / row_bytes) return {};
    return damaged_image(ImageKind::kPng, what_,
                         fmt::format("{} x {} pixels cannot come out of {} bytes", info.height,
                                     info.width, bytes_.size()));
  }

  // Checks the sums of the chunks that hold the image. libpng does it as far as it reads, and so
  // not where the last rows are left out.
  Status check_sums() const {
    constexpr size_t kSignature = 8, kAround = 12;  // length, name and sum of a chunk
    for (size_t at = kSignature; bytes_.size() - at >= kAround;) {
      const auto* chunk = reinterpret_cast<const png_byte*>(bytes_.data() + at);
      const size_t length = png_get_uint_32(chunk);
      if (length > bytes_.size() - at - kAround) break;
      const std::string_view name(reinterpret_cast<const char*>(chunk) + 4, 4);
      // It holds nothing, and newer versions of libpng do not check its sum.
      if (name == "IEND") return {};
      const uLong sum = crc32(0, chunk + 4, static_cast<uInt>(4 + length));
      const bool needed = name.front() >= 'A' && name.front() <= 'Z';
      if (needed && sum != png_get_uint_32(chunk + 8 + length)) {
        return damaged_image(ImageKind::kPng, what_, "CRC error of the chunk " + printable(name));
      }
      at += kAround + length;
    }
    return damaged_image(ImageKind::kPng, what_,
                         fmt::format("it is cut short, after {} bytes", bytes_.size()));
  }

  Result<DecodedImage> decode(const ImageInfo& info, const ImageRegion& region, int channels,
                              int bits, DecodedImage reuse) {
    image_.bits = bits;
    image_.pixels = std::move(reuse.pixels);
    image_.capacity = reuse.capacity;
    region_ = region;
    image_.height = region.height;
    image_.width = region.width;
    image_.channels = channels;
    image_.top = region.top;
    image_.left = region.left;
    info_height_ = info.height;
    Status status = guarded([this] {
      convert();
      passes_ = png_set_interlace_handling(png_);
      png_read_update_info(png_, info_);
    });
    if (!status.ok()) return status.error();
    stored_channels_ = png_get_channels(png_, info_);
    const size_t row_bytes = png_get_rowbytes(png_, info_);
    // An interlaced image comes in seven passes over all of its rows.
    buffer_.resize(passes_ == 1 ? row_bytes : row_bytes * static_cast<size_t>(info.height));
    if (passes_ > 1) {
      rows_.resize(static_cast<size_t>(info.height));
      for (size_t y = 0; y < rows_.size(); ++y) rows_[y] = buffer_.data() + y * row_bytes;
    }
    allocate_pixels(image_);
    status = guarded([this] { read_rows(); });
    if (status.ok() && !came_to_end_) status = check_sums();
    if (!status.ok()) return status.error();
    return std::move(image_);
  }

 private:
  // Runs `call`, which must own nothing, and returns the error with which libpng left it.
  template <typename Call>
  Status guarded(Call call) {
    if (setjmp(jump_) == 0) {
      call();
      return {};
    }
    return damaged_image(ImageKind::kPng, what_, problem_);
  }

  [[noreturn]] void leave(const char* problem) {
    std::snprintf(problem_, sizeof(problem_), "%s", problem);
    std::longjmp(jump_, 1);
  }

  void give(png_bytep to, size_t count) {
    if (count > bytes_.size() - at_) {
      std::snprintf(problem_, sizeof(problem_), "it is cut short, after %zu bytes", bytes_.size());
      std::longjmp(jump_, 1);
    }
    std::memcpy(to, bytes_.data() + at_, count);
    at_ += count;
  }

  // Asks libpng for 8 or 16 bits, grey or RGB, without alpha.
  void convert() {
    const int type = png_get_color_type(png_, info_);
    if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
    if (type == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png_);
    if (image_.bits == 16) {
      png_set_expand_16(png_);
      if constexpr (std::endian::native == std::endian::little) png_set_swap(png_);
    } else {
      png_set_scale_16(png_);
    }
    png_set_strip_alpha(png_);
    if (image_.channels == 3) png_set_gray_to_rgb(png_);
  }

  void read_rows() {
    came_to_end_ = passes_ > 1 || region_.top + region_.height == info_height_;
    if (passes_ > 1) {
      png_read_image(png_, rows_.data());
      png_read_end(png_, nullptr);
      for (int64_t y = 0; y < region_.height; ++y)
        take_row(rows_[static_cast<size_t>(region_.top + y)], y);
      return;
    }
    for (int64_t y = 0; y < region_.top + region_.height; ++y) {
      png_read_row(png_, buffer_.data(), nullptr);
      if (y >= region_.top) take_row(buffer_.data(), y - region_.top);
    }
    if (came_to_end_) png_read_end(png_, nullptr);
  }

  void take_row(const uint8_t* row, int64_t y) {
    if (image_.bits == 16) {
      take_levels(reinterpret_cast<const uint16_t*>(row), y);
    } else {
      take_levels(row, y);
    }
  }

  template <typename Level>
  void take_levels(const Level* row, int64_t y) {
    const Level* from = row + region_.left * stored_channels_;
    Level* to = reinterpret_cast<Level*>(image_.pixels.get()) + y * region_.width * image_.channels;
    if (stored_channels_ == image_.channels) {
      std::copy(from, from + region_.width * image_.channels, to);
    } else {
      rgb_to_grey(from, to, region_.width);
    }
  }

  Bytes bytes_;
  std::string_view what_;
  size_t at_ = 0;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf jump_;
  char problem_[200] = {};
  DecodedImage image_;
  ImageRegion region_;
  int64_t info_height_ = 0;
  int stored_channels_ = 0;
  int passes_ = 1;
  bool came_to_end_ = false;
  std::vector<uint8_t> buffer_;
  std::vector<png_bytep> rows_;
};

}  // namespace

Result<ImageInfo> png_info(Bytes bytes, std::string_view what) {
  return PngReader(bytes, what).read_header();
}

Result<DecodedImage> decode_png(Bytes bytes, std::string_view what,
                                const ImageDecodeOptions& options, DecodedImage reuse) {
  PngReader reader(bytes, what);
  const Result<ImageInfo> info = reader.read_header();
  if (!info.ok()) return info.error();
  if (Status fit = check_image(info.value(), what, options); !fit.ok()) return fit.error();
  if (Status whole = reader.check_data(info.value()); !whole.ok()) return whole.error();
  return reader.decode(info.value(), wanted_region(info.value(), options), options.channels,
                       options.bits, std::move(reuse));
}

}  // namespace muster::inline v0_1::formats::internal
