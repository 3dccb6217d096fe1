#include <fmt/format.h>
#include <png.h>

#include "muster/base/error.h"
#include "muster/formats/image.h"

namespace muster::inline v0_1::formats {

Result<std::string> encode_png(std::span<const uint8_t> pixels, int64_t height, int64_t width,
                               int channels) {
  constexpr png_uint_32 kFormats[] = {PNG_FORMAT_GRAY, PNG_FORMAT_GA, PNG_FORMAT_RGB,
                                      PNG_FORMAT_RGBA};
  if (channels < 1 || channels > 4) {
    return invalid_argument(
        fmt::format("encode_png got channels = {}; it must be from 1 to 4", channels));
  }
  constexpr int64_t kMostSide = 1'000'000;  // libpng's own limit
  if (height < 1 || width < 1 || height > kMostSide || width > kMostSide) {
    return invalid_argument(
        fmt::format("encode_png got {} x {} pixels; height and width must be from 1 to {}", height,
                    width, kMostSide));
  }
  if (static_cast<int64_t>(pixels.size()) != height * width * channels) {
    return invalid_argument(
        fmt::format("encode_png got {} bytes; {} x {} pixels of {} channels have {}", pixels.size(),
                    height, width, channels, height * width * channels));
  }
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = kFormats[channels - 1];
  std::string file(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t size = file.size();
  if (png_image_write_to_memory(&image, file.data(), &size, /*convert_to_8_bit=*/0, pixels.data(),
                                /*row_stride=*/0, nullptr) == 0) {
    const std::string problem = image.message;
    png_image_free(&image);
    return Error(ErrorKind::kInternal,
                 fmt::format("libpng cannot encode {} x {} pixels: {}", height, width, problem));
  }
  file.resize(size);
  return file;
}

}  // namespace muster::inline v0_1::formats
