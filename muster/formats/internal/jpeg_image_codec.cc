#include <fmt/format.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <utility>
#include <vector>

// jpeglib.h needs <cstdio> before it.
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include "muster/formats/internal/image_codec.h"

namespace muster::inline v0_1::formats::internal {
namespace {

// A progressive file may describe the same pixels again and again in very few bytes.
constexpr int kMostScans = 500;
// Each block of 64 pixels takes one bit or more in one component or more, and a component may have
// a sixteenth of the blocks. A file that claims more pixels is damaged, or made to take memory.
constexpr int64_t kPixelsPerByte = 8 * 64 * 16;
// At the border of a cropped decode, colours are interpolated without their neighbours, so a margin
// is decoded too.
constexpr int64_t kMargin = 2;

bool is_harmless(int warning) {
  switch (warning) {
    case JWRN_JFIF_MAJOR:
    case JWRN_ADOBE_XFORM:
    case JWRN_BOGUS_ICC:
    // Everything that was expected before these bytes has been decoded.
    case JWRN_EXTRANEOUS_DATA:
      return true;
    default:
      return false;
  }
}

bool is_unsupported(int error) {
  switch (error) {
    case JERR_BAD_PRECISION:
    case JERR_SOF_UNSUPPORTED:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_ARITH_NOTIMPL:
    case JERR_CCIR601_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_NOTIMPL:
      return true;
    default:
      return false;
  }
}

// Holds the state of libjpeg and the place to which it jumps after an error. All objects are
// members, so that the jump passes no destructor.
class JpegReader {
 public:
  JpegReader(Bytes bytes, std::string_view what, bool try_recover_truncated = false)
      : bytes_(bytes), what_(what), recovers_(try_recover_truncated) {
    state_.err = jpeg_std_error(&errors_);
    errors_.error_exit = [](j_common_ptr state) { of(state)->leave(); };
    errors_.emit_message = [](j_common_ptr state, int level) {
      if (level < 0 && !is_harmless(state->err->msg_code)) of(state)->pass_damage();
    };
    errors_.output_message = [](j_common_ptr) {};
    progress_.progress_monitor = [](j_common_ptr state) { of(state)->count_scans(); };
    state_.client_data = this;
  }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;
  ~JpegReader() { jpeg_destroy_decompress(&state_); }

  Result<ImageInfo> read_header() {
    const Status read = guarded([this] {
      jpeg_create_decompress(&state_);
      state_.client_data = this;
      state_.progress = &progress_;
      jpeg_mem_src(&state_, reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size());
      jpeg_read_header(&state_, TRUE);
    });
    if (!read.ok()) return read.error();
    return ImageInfo{.kind = ImageKind::kJpeg,
                     .height = state_.image_height,
                     .width = state_.image_width,
                     .channels = state_.num_components,
                     .bits = state_.data_precision};
  }

  // Checks that the bytes after the header can hold the image. REQUIRES: read_header().
  Status check_data(const ImageInfo& info) const {
    const size_t left = state_.src->bytes_in_buffer;
    const std::string_view data = text_of(bytes_.last(left));
    if (!recovers_ && data.rfind("\xff\xd9") == std::string_view::npos) {
      return damaged_image(
          ImageKind::kJpeg, what_,
          fmt::format("it is cut short: no end of the image in its {} bytes", bytes_.size()),
          "copy or download the file again, or leave it out; try_recover_truncated decodes what is "
          "there");
    }
    // With arithmetic coding there is no shortest code.
    if (!state_.arith_code &&
        info.height * info.width > kPixelsPerByte * static_cast<int64_t>(left)) {
      return damaged_image(
          ImageKind::kJpeg, what_,
          fmt::format("{} x {} pixels cannot come out of {} bytes", info.height, info.width, left));
    }
    return {};
  }

  Result<DecodedImage> decode(const ImageRegion& region, int eighths, int channels,
                              DecodedImage reuse) {
    image_.pixels = std::move(reuse.pixels);
    image_.capacity = reuse.capacity;
    inks_ = state_.num_components == 4;
    image_.channels = channels;
    image_.scale = eighths / 8.0;
    state_.scale_num = eighths;
    state_.scale_denom = 8;
    state_.out_color_space = inks_ ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    Status status = guarded([this] { jpeg_start_decompress(&state_); });
    if (!status.ok()) return status.error();
    place(region, eighths);
    // libjpeg crops at whole blocks of the file, so a few more columns come out on the left.
    status = guarded([this] {
      if (columns_ < state_.output_width) jpeg_crop_scanline(&state_, &first_column_, &columns_);
    });
    if (!status.ok()) return status.error();
    image_.left = first_column_;
    image_.width = columns_;
    allocate_pixels(image_);
    if (inks_) ink_row_.resize(size_t{columns_} * 4);
    status = guarded([this] { read_rows(); });
    if (!status.ok()) return status.error();
    image_.damage = without_prefix(damage_);
    return std::move(image_);
  }

 private:
  static JpegReader* of(j_common_ptr state) { return static_cast<JpegReader*>(state->client_data); }

  // Runs `call`, which must own nothing, and returns the error with which libjpeg left it.
  template <typename Call>
  Status guarded(Call call) {
    if (setjmp(jump_) == 0) {
      call();
      return {};
    }
    if (errors_.msg_code == JERR_OUT_OF_MEMORY) throw std::bad_alloc();
    if (is_unsupported(errors_.msg_code))
      return unsupported_image(ImageKind::kJpeg, what_, problem_);
    return damaged_image(ImageKind::kJpeg, what_, without_prefix(problem_));
  }

  static std::string_view without_prefix(std::string_view problem) {
    constexpr std::string_view kSaidAlready = "Corrupt JPEG data: ";
    if (problem.starts_with(kSaidAlready)) problem.remove_prefix(kSaidAlready.size());
    return problem;
  }

  // Keeps the first message about damage, and continues; the end of a file that has been cut ends
  // it, unless truncated files are allowed.
  void pass_damage() {
    if (errors_.msg_code == JWRN_JPEG_EOF && !recovers_) leave();
    if (damage_[0] == '\0')
      errors_.format_message(reinterpret_cast<j_common_ptr>(&state_), damage_);
  }

  [[noreturn]] void leave() {
    errors_.format_message(reinterpret_cast<j_common_ptr>(&state_), problem_);
    std::longjmp(jump_, 1);
  }

  void count_scans() {
    if (state_.input_scan_number <= kMostScans) return;
    std::snprintf(problem_, sizeof(problem_), "it has more than %d scans", kMostScans);
    errors_.msg_code = 0;
    std::longjmp(jump_, 1);
  }

  // Sets the rows and columns to decode: the region at this scale, and a margin.
  void place(const ImageRegion& region, int eighths) {
    const auto begin = [&](int64_t at) { return std::max<int64_t>(at * eighths / 8 - kMargin, 0); };
    const auto end = [&](int64_t at, int64_t limit) {
      return std::min((at * eighths + 7) / 8 + kMargin, limit);
    };
    image_.top = begin(region.top);
    image_.height = end(region.top + region.height, state_.output_height) - image_.top;
    first_column_ = static_cast<JDIMENSION>(begin(region.left));
    columns_ = static_cast<JDIMENSION>(end(region.left + region.width, state_.output_width)) -
               first_column_;
  }

  void read_rows() {
    const int64_t row_bytes = image_.width * image_.channels;
    if (image_.top > 0) jpeg_skip_scanlines(&state_, static_cast<JDIMENSION>(image_.top));
    while (state_.output_scanline < image_.top + image_.height) {
      uint8_t* to = image_.pixels.get() + (state_.output_scanline - image_.top) * row_bytes;
      JSAMPROW row = inks_ ? ink_row_.data() : to;
      jpeg_read_scanlines(&state_, &row, 1);
      if (inks_) mix_inks(to);
    }
  }

  // Adobe's programs store how much is left white; all others store how much ink there is.
  void mix_inks(uint8_t* to) const {
    const unsigned turn = state_.saw_Adobe_marker ? 0 : 255;
    for (JDIMENSION x = 0; x < columns_; ++x) {
      const uint8_t* inks = &ink_row_[size_t{x} * 4];
      const unsigned white = inks[3] ^ turn;
      uint8_t rgb[3];
      for (int c = 0; c < 3; ++c)
        rgb[c] = static_cast<uint8_t>(((inks[c] ^ turn) * white + 127) / 255);
      if (image_.channels == 3) {
        std::copy(rgb, rgb + 3, to + size_t{x} * 3);
      } else {
        rgb_to_grey(rgb, to + x, 1);
      }
    }
  }

  Bytes bytes_;
  std::string_view what_;
  bool recovers_;
  jpeg_decompress_struct state_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf jump_;
  char problem_[JMSG_LENGTH_MAX] = {};
  char damage_[JMSG_LENGTH_MAX] = {};
  DecodedImage image_;
  JDIMENSION first_column_ = 0;
  JDIMENSION columns_ = 0;
  bool inks_ = false;
  std::vector<uint8_t> ink_row_;
};

// Returns the smallest scale at which the region is large enough. libjpeg-turbo can scale by every
// M/8, but has vector code for these alone: 5/8, 6/8 and 7/8 take longer than 8/8.
int choose_eighths(const ImageRegion& region, const ImageDecodeOptions& options) {
  if (options.min_height <= 0 && options.min_width <= 0) return 8;
  for (const int eighths : {1, 2, 4}) {
    if (region.height * eighths / 8 >= options.min_height &&
        region.width * eighths / 8 >= options.min_width) {
      return eighths;
    }
  }
  return 8;
}

}  // namespace

Result<ImageInfo> jpeg_info(Bytes bytes, std::string_view what) {
  return JpegReader(bytes, what).read_header();
}

Result<DecodedImage> decode_jpeg(Bytes bytes, std::string_view what,
                                 const ImageDecodeOptions& options, DecodedImage reuse) {
  JpegReader reader(bytes, what, options.try_recover_truncated);
  const Result<ImageInfo> info = reader.read_header();
  if (!info.ok()) return info.error();
  if (Status fit = check_image(info.value(), what, options); !fit.ok()) return fit.error();
  if (Status whole = reader.check_data(info.value()); !whole.ok()) return whole.error();
  const ImageRegion region = wanted_region(info.value(), options);
  return reader.decode(region, choose_eighths(region, options), options.channels, std::move(reuse));
}

}  // namespace muster::inline v0_1::formats::internal
