#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "muster/formats/image.h"

namespace muster::inline v0_1::formats {
namespace {

using ::testing::HasSubstr;

std::vector<uint8_t> ramp(int64_t bytes) {
  std::vector<uint8_t> pixels(static_cast<size_t>(bytes));
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(37 * i);
  return pixels;
}

TEST(EncodePng, PixelsComeBack) {
  for (const int channels : {1, 3}) {
    const std::vector<uint8_t> pixels = ramp(5 * 7 * channels);
    const std::string png = encode_png(pixels, 5, 7, channels).value();
    const DecodedImage image = decode_image(bytes_of(png), "png", {.channels = channels}).value();
    EXPECT_EQ(image.height, 5);
    EXPECT_EQ(image.width, 7);
    EXPECT_TRUE(std::equal(pixels.begin(), pixels.end(), image.pixels.get())) << channels;
  }
}

TEST(EncodePng, AlphaIsAChannel) {
  for (const int channels : {2, 4}) {
    const std::string png = encode_png(ramp(2 * 3 * channels), 2, 3, channels).value();
    EXPECT_EQ(image_info(bytes_of(png), "png").value().channels, channels);
  }
}

TEST(EncodePng, RefusesWhatIsNoImage) {
  const auto message = [](int64_t bytes, int64_t height, int64_t width, int channels) {
    return encode_png(ramp(bytes), height, width, channels).error().message();
  };
  EXPECT_THAT(message(10, 1, 2, 5), HasSubstr("channels = 5"));
  EXPECT_THAT(message(0, 0, 2, 1), HasSubstr("0 x 2 pixels"));
  EXPECT_THAT(message(0, 1, 2'000'000, 1), HasSubstr("1 x 2000000 pixels"));
  EXPECT_THAT(message(11, 2, 2, 3), HasSubstr("11 bytes"));
}

}  // namespace
}  // namespace muster::inline v0_1::formats
