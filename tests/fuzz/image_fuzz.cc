// image_info() and decode_image() of anything: whole, and a part at another scale, which must be
// where it says it is.
#include "muster/base/random.h"
#include "muster/formats/image.h"
#include "tests/fuzz/meter.h"
#include "tests/fuzz/target.h"
#include "tests/support/test_images.h"

namespace muster::fuzz {

std::vector<std::string> seeds() {
  using testing::encode_jpeg;
  using testing::encode_png;
  using testing::make_test_image;
  std::vector<std::string> made;
  const testing::TestImage colour = make_test_image(24, 40, 3);
  made.push_back(encode_jpeg(colour));
  made.push_back(encode_jpeg(colour, {.horizontal_sampling = 1, .vertical_sampling = 1}));
  made.push_back(encode_jpeg(colour, {.progressive = true, .restart_interval = 2}));
  made.push_back(encode_jpeg(colour, {.arithmetic = true}));
  made.push_back(encode_jpeg(make_test_image(17, 9, 1)));
  made.push_back(encode_jpeg(make_test_image(16, 16, 4), {.ycck = true}));
  for (const int channels : {1, 2, 3, 4})
    made.push_back(encode_png(make_test_image(9, 7, channels),
                              {.interlaced = channels % 2 == 0, .bits = channels > 2 ? 16 : 8}));
  made.push_back(encode_png(make_test_image(12, 11, 1), {.palette = true}));
  made.push_back(encode_png(make_test_image(12, 11, 1), {.bits = 2}));
  for (const int bits : {16, 24, 32})
    made.push_back(testing::encode_bmp(colour, {.bits = bits, .masks = bits == 32}));
  made.push_back(testing::encode_bmp(make_test_image(12, 11, 1), {.bits = 8}));
  made.push_back(testing::encode_gif(make_test_image(12, 11, 1)));
  made.push_back(testing::encode_gif(make_test_image(20, 9, 1), {.interlaced = true, .top = 3}));
  return made;
}

std::vector<std::string> seed_folders() { return {"images/val/ants"}; }

namespace {

constexpr int64_t kMostPixels = 1 << 18;

void check_size(const formats::DecodedImage& image, const formats::ImageRegion& region) {
  require(image.height > 0 && image.width > 0, "there are pixels");
  const auto low = [](int64_t begin, double scale) {
    return static_cast<int64_t>(static_cast<double>(begin) * scale);
  };
  require(image.top <= low(region.top, image.scale) && image.left <= low(region.left, image.scale),
          "the region begins inside");
  require(image.top + image.height >= low(region.top + region.height, image.scale) &&
              image.left + image.width >= low(region.left + region.width, image.scale),
          "the region ends inside");
  // Reading all of it shows bytes that were left unset or lie outside.
  uint64_t sum = 0;
  const int64_t count = image.height * image.width * image.channels;
  for (int64_t i = 0; i < count; ++i) sum += image.pixels[static_cast<size_t>(i)];
  require(sum <= 255 * static_cast<uint64_t>(count), "pixels have 8 bits");
}

}  // namespace
}  // namespace muster::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;  // NOLINT(google-build-using-namespace)
  const Bytes bytes = fuzz::bytes_of_input(data, size);
  const Result<formats::ImageInfo> info =
      fuzz::metered(parse_memory_limit(size), [&] { return formats::image_info(bytes, "input"); });
  if (!info.ok()) return 0;
  const auto height = info.value().height;
  const auto width = info.value().width;
  fuzz::require(height > 0 && width > 0, "a header has sizes");
  const formats::ImageRegion all{0, 0, height, width};
  // A pixel as stored, as requested, and, for a progressive JPEG, all coefficients so far.
  constexpr uint64_t kPixelBytes = 16;
  const Result<formats::DecodedImage> whole = fuzz::metered(
      parse_memory_limit(size) + kPixelBytes * fuzz::kMostPixels,
      [&] { return formats::decode_image(bytes, "input", {.max_pixels = fuzz::kMostPixels}); });
  if (whole.ok()) fuzz::check_size(whole.value(), all);

  Random random(derive_key(id_of(text_of(bytes)), {}));
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random.uniform_below(static_cast<uint64_t>(n)));
  };
  formats::ImageRegion region;
  region.top = below(height);
  region.left = below(width);
  region.height = 1 + below(height - region.top);
  region.width = 1 + below(width - region.left);
  const Result<formats::DecodedImage> part =
      formats::decode_image(bytes, "input",
                            {.channels = below(2) == 0 ? 1 : 3,
                             .region = region,
                             .min_height = below(region.height + 1),
                             .min_width = below(region.width + 1),
                             .max_pixels = fuzz::kMostPixels,
                             .try_recover_truncated = below(2) == 0});
  if (part.ok()) fuzz::check_size(part.value(), region);
  // Less is read of a part: an image that decodes whole decodes in part.
  fuzz::require(part.ok() || !whole.ok(), "a part of a good image is good");
  return 0;
}
