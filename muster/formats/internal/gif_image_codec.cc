// The first frame of a GIF. giflib is not used, since it makes pixels of undefined codes, but a
// damaged GIF has to be refused (formats/image.h).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "muster/formats/internal/image_codec.h"

namespace muster::inline v0_1::formats::internal {
namespace {

// A code of 12 bits represents 3,839 pixels at most.
constexpr int64_t kGifPixelsPerByte = 4096;
constexpr size_t kCodes = 4096;

using Palette = std::array<std::array<uint8_t, 3>, 256>;

class GifReader {
 public:
  GifReader(Bytes bytes, std::string_view what) : bytes_(bytes), what_(what) {}

  // Reads the part before the pixels of the first frame.
  Status read_header() {
    at_ = 6;
    canvas_width_ = word();
    canvas_height_ = word();
    const uint8_t flags = byte();
    at_ += 2;  // the background colour, which browsers do not show either, and the pixels' shape
    if ((flags & 0x80) != 0) read_palette(flags);
    while (!ended_) {
      const uint8_t kind = byte();
      if (kind == ',') return read_frame();
      if (kind != '!') return damaged(at_ > bytes_.size() ? "it is cut short" : "it has no frame");
      const uint8_t label = byte();
      constexpr uint8_t kGraphicControl = 0xf9;
      if (label == kGraphicControl && at_ + 5 <= bytes_.size()) {
        const auto control = std::to_integer<uint8_t>(bytes_[at_ + 1]);
        transparent_ = (control & 1) != 0 ? std::to_integer<int>(bytes_[at_ + 4]) : -1;
      }
      for (uint8_t length = byte(); length != 0 && !ended_; length = byte()) at_ += length;
    }
    return damaged("it is cut short");
  }

  ImageInfo info() const {
    return {.kind = ImageKind::kGif,
            .height = std::max(canvas_height_, top_ + height_),
            .width = std::max(canvas_width_, left_ + width_),
            .channels = 3,
            .bits = 8};
  }

  Result<DecodedImage> decode(const ImageRegion& region, int channels, DecodedImage reuse) {
    const ImageInfo whole = info();
    if (whole.height * whole.width > kGifPixelsPerByte * static_cast<int64_t>(bytes_.size())) {
      return damaged(fmt::format("{} x {} pixels cannot come out of {} bytes", whole.height,
                                 whole.width, bytes_.size()));
    }
    if (Status unpacked = unpack(); !unpacked.ok()) return unpacked.error();
    return image_of_rows(region, channels, std::move(reuse), [&](int64_t y, uint8_t* rgb) {
      for (int64_t x = 0; x < region.width; ++x)
        std::ranges::copy(colour(region.top + y - top_, region.left + x - left_), rgb + x * 3);
    });
  }

 private:
  Error damaged(std::string_view problem) const {
    return damaged_image(ImageKind::kGif, what_, problem);
  }

  uint8_t byte() {
    if (at_ >= bytes_.size()) {
      ended_ = true;
      return 0;
    }
    return std::to_integer<uint8_t>(bytes_[at_++]);
  }
  int64_t word() {
    const int64_t low = byte();
    return low + 256 * int64_t{byte()};
  }

  void read_palette(uint8_t flags) {
    palette_ = {};
    const size_t count = size_t{2} << (flags & 7);
    for (size_t i = 0; i < count; ++i) {
      for (uint8_t& level : palette_[i]) level = byte();
    }
  }

  Status read_frame() {
    left_ = word();
    top_ = word();
    width_ = word();
    height_ = word();
    const uint8_t flags = byte();
    if ((flags & 0x80) != 0) read_palette(flags);
    interlaced_ = (flags & 0x40) != 0;
    first_bits_ = byte();
    if (ended_) return damaged("it is cut short");
    if (width_ < 1 || height_ < 1)
      return damaged(fmt::format("its first frame has {} x {} pixels", height_, width_));
    if (first_bits_ < 1 || first_bits_ > 8)
      return damaged(fmt::format("its codes cannot begin with {} bits", first_bits_));
    return {};
  }

  // The next code of `bits`; -1 at the end of the data.
  int code(int bits) {
    while (held_bits_ < bits) {
      if (block_left_ == 0) {
        block_left_ = byte();
        if (block_left_ == 0) return -1;
      }
      held_ |= uint32_t{byte()} << held_bits_;
      if (ended_) return -1;
      held_bits_ += 8;
      --block_left_;
    }
    const int value = static_cast<int>(held_ & ((1u << bits) - 1));
    held_ >>= bits;
    held_bits_ -= bits;
    return value;
  }

  // Fills indices_ with the pixels of the frame, in the order of the file.
  Status unpack() {
    const auto size = static_cast<size_t>(height_ * width_);
    indices_.clear();
    indices_.reserve(size);
    // Code c represents the pixels of `before`, and `last`.
    std::array<uint16_t, kCodes> before{};
    std::array<uint8_t, kCodes> last{}, first{};
    std::array<uint16_t, kCodes> lengths{};
    const int clear = 1 << first_bits_, end = clear + 1;
    for (int i = 0; i < clear; ++i) {
      last[static_cast<size_t>(i)] = first[static_cast<size_t>(i)] = static_cast<uint8_t>(i);
      lengths[static_cast<size_t>(i)] = 1;
    }
    int bits = first_bits_ + 1, next = end + 1, previous = -1;
    while (indices_.size() < size) {
      const int now = code(bits);
      if (now < 0 || now == end) {
        return damaged(
            fmt::format("{} of {} pixels of its first frame are there", indices_.size(), size));
      }
      if (now == clear) {
        bits = first_bits_ + 1;
        next = end + 1;
        previous = -1;
        continue;
      }
      if (now > next || (now == next && previous < 0) || (previous < 0 && now >= clear))
        return damaged(fmt::format("the code {} stands where there are {}", now, next));
      const auto old = static_cast<size_t>(previous);
      if (previous >= 0 && next < static_cast<int>(kCodes)) {
        const auto fresh = static_cast<size_t>(next);
        before[fresh] = static_cast<uint16_t>(old);
        first[fresh] = first[old];
        last[fresh] = now == next ? first[old] : first[static_cast<size_t>(now)];
        lengths[fresh] = static_cast<uint16_t>(lengths[old] + 1);
        if (++next == 1 << bits && bits < 12) ++bits;
      } else if (now >= next) {
        return damaged(fmt::format("the code {} stands where there are {}", now, next));
      }
      // From the last pixel to the first; pixels beyond the frame are left out.
      auto from = static_cast<size_t>(now);
      const size_t begin = indices_.size();
      const size_t length = lengths[from];
      indices_.resize(std::min(size, begin + length));
      for (size_t i = length; i-- > 0; from = before[from]) {
        if (begin + i < size) indices_[begin + i] = last[from];
      }
      previous = now;
    }
    return {};
  }

  // Which row of the file is row `y` of an interlaced frame.
  int64_t stored_row(int64_t y) const {
    if (!interlaced_) return y;
    const auto rows = [&](int64_t begin, int64_t step) {
      return begin >= height_ ? 0 : (height_ - begin + step - 1) / step;
    };
    if (y % 8 == 0) return y / 8;
    if (y % 8 == 4) return rows(0, 8) + y / 8;
    if (y % 4 == 2) return rows(0, 8) + rows(4, 8) + y / 4;
    return rows(0, 8) + rows(4, 8) + rows(2, 4) + y / 2;
  }

  // The colour of a pixel of the frame; black outside of it, and if it is transparent.
  std::array<uint8_t, 3> colour(int64_t y, int64_t x) const {
    if (y < 0 || x < 0 || y >= height_ || x >= width_) return {};
    const uint8_t index = indices_[static_cast<size_t>(stored_row(y) * width_ + x)];
    if (index == transparent_) return {};
    return palette_[index];
  }

  Bytes bytes_;
  std::string_view what_;
  size_t at_ = 0;
  bool ended_ = false;
  int64_t canvas_width_ = 0, canvas_height_ = 0;
  int64_t left_ = 0, top_ = 0, width_ = 0, height_ = 0;
  bool interlaced_ = false;
  int transparent_ = -1;
  int first_bits_ = 0;
  Palette palette_{};
  uint32_t held_ = 0;  // bits that were read, the next one lowest
  int held_bits_ = 0;
  int block_left_ = 0;  // bytes of the block
  std::vector<uint8_t> indices_;
};

}  // namespace

Result<ImageInfo> gif_info(Bytes bytes, std::string_view what) {
  return info_by<GifReader>(bytes, what);
}

Result<DecodedImage> decode_gif(Bytes bytes, std::string_view what,
                                const ImageDecodeOptions& options, DecodedImage reuse) {
  return decode_by<GifReader>(bytes, what, options, std::move(reuse));
}

}  // namespace muster::inline v0_1::formats::internal
