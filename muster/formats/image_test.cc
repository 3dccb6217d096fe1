#include "muster/formats/image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "tests/support/test_images.h"

namespace muster::inline v0_1::formats {
namespace {

using ::testing::AllOf;
using testing::encode_jpeg;
using testing::encode_png;
using ::testing::HasSubstr;
using testing::JpegOptions;
using testing::make_test_image;
using testing::TestImage;

DecodedImage decode(const std::string& file, const ImageDecodeOptions& options = {}) {
  return decode_image(bytes_of(file), "a.image", options).value();
}

Error error_of(const std::string& file, const ImageDecodeOptions& options = {}) {
  return decode_image(bytes_of(file), "a.image", options).error();
}

uint8_t at(const DecodedImage& image, int64_t y, int64_t x, int64_t c) {
  return image.pixels[static_cast<size_t>((y * image.width + x) * image.channels + c)];
}

std::vector<uint8_t> pixels_of(const DecodedImage& image) {
  return {image.pixels.get(), image.pixels.get() + image.height * image.width * image.channels};
}

// The mean distance between the decoded image and what was encoded.
double mean_error(const DecodedImage& image, const TestImage& truth) {
  EXPECT_EQ(image.height, truth.height);
  EXPECT_EQ(image.width, truth.width);
  EXPECT_EQ(image.channels, truth.channels);
  double sum = 0;
  for (size_t i = 0; i < truth.pixels.size(); ++i)
    sum += std::abs(int{image.pixels[i]} - int{truth.pixels[i]});
  return sum / static_cast<double>(truth.pixels.size());
}

// Every pixel of `part` is the one a whole decode at the same scale gives, and the region is
// covered.
void expect_part_of(const DecodedImage& part, const DecodedImage& whole, const ImageRegion& region,
                    const std::string& which) {
  ASSERT_EQ(part.scale, whole.scale) << which;
  EXPECT_LE(part.top, region.top * part.scale) << which;
  EXPECT_LE(part.left, region.left * part.scale) << which;
  EXPECT_GE(part.top + part.height, std::min<double>((region.top + region.height) * part.scale,
                                                     static_cast<double>(whole.height)))
      << which;
  EXPECT_GE(part.left + part.width, std::min<double>((region.left + region.width) * part.scale,
                                                     static_cast<double>(whole.width)))
      << which;
  ASSERT_LE(part.top + part.height, whole.height) << which;
  ASSERT_LE(part.left + part.width, whole.width) << which;
  // What lies outside of the region by a whole pixel may differ.
  const auto top = static_cast<int64_t>(std::floor(region.top * part.scale));
  const auto left = static_cast<int64_t>(std::floor(region.left * part.scale));
  const auto bottom = std::min(
      static_cast<int64_t>(std::ceil((region.top + region.height) * part.scale)), whole.height);
  const auto right = std::min(
      static_cast<int64_t>(std::ceil((region.left + region.width) * part.scale)), whole.width);
  for (int64_t y = top; y < bottom; ++y) {
    for (int64_t x = left; x < right; ++x) {
      for (int64_t c = 0; c < part.channels; ++c) {
        ASSERT_EQ(at(part, y - part.top, x - part.left, c), at(whole, y, x, c))
            << which << ": row " << y << ", column " << x;
      }
    }
  }
}

TEST(Image, KindsAreKnownByTheirFirstBytes) {
  const TestImage image = make_test_image(5, 7, 3);
  EXPECT_EQ(image_kind(bytes_of(encode_jpeg(image))), ImageKind::kJpeg);
  EXPECT_EQ(image_kind(bytes_of(encode_png(image))), ImageKind::kPng);
  EXPECT_EQ(image_kind(bytes_of("GIF89a")), std::nullopt);
  EXPECT_EQ(image_kind(Bytes()), std::nullopt);
  EXPECT_THAT(
      error_of("GIF89a").message(),
      AllOf(HasSubstr("'a.image'"), HasSubstr("neither JPEG nor PNG"), HasSubstr("47 49 46 38")));
  EXPECT_THAT(error_of("").message(), HasSubstr("empty"));
}

TEST(Image, InfoIsWhatTheHeaderSays) {
  const ImageInfo jpeg = image_info(bytes_of(encode_jpeg(make_test_image(31, 17, 1))), "x").value();
  EXPECT_EQ(jpeg.kind, ImageKind::kJpeg);
  EXPECT_EQ(jpeg.height, 31);
  EXPECT_EQ(jpeg.width, 17);
  EXPECT_EQ(jpeg.channels, 1);
  EXPECT_EQ(jpeg.bits, 8);
  const ImageInfo png =
      image_info(bytes_of(encode_png(make_test_image(3, 90, 4), {.bits = 16})), "x").value();
  EXPECT_EQ(png.kind, ImageKind::kPng);
  EXPECT_EQ(png.height, 3);
  EXPECT_EQ(png.width, 90);
  EXPECT_EQ(png.channels, 4);
  EXPECT_EQ(png.bits, 16);
}

TEST(Image, EveryJpegIsNearWhatWasEncoded) {
  const TestImage colour = make_test_image(61, 83, 3);
  for (const int sampling : {1, 2}) {
    for (const bool progressive : {false, true}) {
      const std::string file = encode_jpeg(colour, {.quality = 98,
                                                    .horizontal_sampling = sampling,
                                                    .vertical_sampling = sampling,
                                                    .progressive = progressive});
      EXPECT_LT(mean_error(decode(file), colour), sampling == 1 ? 2 : 6);
    }
  }
  const TestImage grey = make_test_image(20, 33, 1);
  const std::string grey_file = encode_jpeg(grey, {.quality = 98});
  EXPECT_LT(mean_error(decode(grey_file, {.channels = 1}), grey), 2);
  const DecodedImage as_colour = decode(grey_file);
  const DecodedImage as_grey = decode(grey_file, {.channels = 1});
  for (int64_t i = 0; i < 20 * 33; ++i) {
    for (int64_t c = 0; c < 3; ++c)
      ASSERT_EQ(as_colour.pixels[static_cast<size_t>(3 * i + c)],
                as_grey.pixels[static_cast<size_t>(i)]);
  }
  EXPECT_LT(mean_error(decode(encode_jpeg(colour, {.quality = 98,
                                                   .horizontal_sampling = 1,
                                                   .vertical_sampling = 1,
                                                   .arithmetic = true})),
                       colour),
            2);
}

TEST(Image, InksBecomeColours) {
  TestImage inks{16, 16, 4, {}};
  for (int i = 0; i < 256; ++i) inks.pixels.insert(inks.pixels.end(), {255, 128, 0, 204});
  // As Adobe stores them, 255 is paper: red 255 * 0.8, green 128 * 0.8, blue 0.
  const std::vector<double> paper{204, 102.4, 0};
  // Of others, 255 is ink.
  const std::vector<double> ink{0, 127 * 51 / 255.0, 51};
  for (const bool adobe : {true, false}) {
    const DecodedImage image = decode(encode_jpeg(inks, {.quality = 100, .adobe_marker = adobe}));
    for (int64_t c = 0; c < 3; ++c) {
      EXPECT_NEAR(at(image, 8, 8, c), (adobe ? paper : ink)[static_cast<size_t>(c)], 2)
          << adobe << " " << c;
    }
  }
  const DecodedImage ycck = decode(encode_jpeg(inks, {.quality = 100, .ycck = true}));
  for (int64_t c = 0; c < 3; ++c)
    EXPECT_NEAR(at(ycck, 8, 8, c), paper[static_cast<size_t>(c)], 3) << c;
  const DecodedImage grey = decode(encode_jpeg(inks, {.quality = 100}), {.channels = 1});
  EXPECT_NEAR(at(grey, 8, 8, 0), 0.299 * 204 + 0.587 * 102.4, 2);
}

TEST(Image, EveryPngIsWhatWasEncoded) {
  for (const bool interlaced : {false, true}) {
    for (const int bits : {8, 16}) {
      for (const int channels : {1, 2, 3, 4}) {
        const TestImage image = make_test_image(13, 21, channels);
        const std::string file = encode_png(image, {.interlaced = interlaced, .bits = bits});
        const DecodedImage colour = decode(file);
        const DecodedImage grey = decode(file, {.channels = 1});
        for (int y = 0; y < 13; ++y) {
          for (int x = 0; x < 21; ++x) {
            double luma = 0;
            for (int c = 0; c < 3; ++c) {
              const int stored = image.at(y, x, channels < 3 ? 0 : c);
              ASSERT_EQ(at(colour, y, x, c), stored) << channels << " channels, " << bits;
              luma += (c == 0 ? 0.299 : c == 1 ? 0.587 : 0.114) * stored;
            }
            ASSERT_NEAR(at(grey, y, x, 0), luma, 0.51);
          }
        }
      }
    }
    for (const int bits : {1, 2, 4}) {
      const TestImage image = make_test_image(9, 19, 1);
      const DecodedImage grey =
          decode(encode_png(image, {.interlaced = interlaced, .bits = bits}), {.channels = 1});
      const int most = (1 << bits) - 1;
      for (int y = 0; y < 9; ++y) {
        for (int x = 0; x < 19; ++x)
          ASSERT_EQ(at(grey, y, x, 0), (image.at(y, x, 0) >> (8 - bits)) * 255 / most) << bits;
      }
    }
    const TestImage indices = make_test_image(11, 10, 1);
    const DecodedImage colours =
        decode(encode_png(indices, {.interlaced = interlaced, .palette = true}));
    for (int y = 0; y < 11; ++y) {
      for (int x = 0; x < 10; ++x) {
        uint8_t rgb[3];
        testing::palette_colour(indices.at(y, x, 0), rgb);
        for (int c = 0; c < 3; ++c) ASSERT_EQ(at(colours, y, x, c), rgb[c]);
      }
    }
  }
}

TEST(Image, APartOfAPngIsThatPart) {
  const TestImage image = make_test_image(30, 40, 3);
  for (const bool interlaced : {false, true}) {
    const std::string file = encode_png(image, {.interlaced = interlaced});
    const DecodedImage whole = decode(file);
    for (const ImageRegion region : {ImageRegion{0, 0, 30, 40}, ImageRegion{29, 39, 1, 1},
                                     ImageRegion{5, 7, 11, 13}, ImageRegion{0, 20, 30, 1}}) {
      const DecodedImage part = decode(file, {.region = region, .min_height = 1, .min_width = 1});
      EXPECT_EQ(part.height, region.height);
      EXPECT_EQ(part.width, region.width);
      expect_part_of(part, whole, region, interlaced ? "interlaced" : "plain");
    }
  }
}

// Scales, parts, kinds of colour sampling and progressive files: always the pixels of a whole
// decode.
TEST(Image, APartOfAJpegAtAnyScaleIsThatPart) {
  const TestImage image = make_test_image(149, 173, 3);
  struct Sampling {
    int horizontal, vertical;
  };
  for (const Sampling sampling : {Sampling{1, 1}, Sampling{2, 1}, Sampling{1, 2}, Sampling{2, 2}}) {
    for (const bool progressive : {false, true}) {
      const std::string file = encode_jpeg(image, {.quality = 85,
                                                   .horizontal_sampling = sampling.horizontal,
                                                   .vertical_sampling = sampling.vertical,
                                                   .progressive = progressive});
      for (const int eighths : {1, 2, 4, 8}) {
        const DecodedImage whole =
            decode(file, {.min_height = 149 * eighths / 8, .min_width = 173 * eighths / 8});
        ASSERT_EQ(whole.scale, eighths / 8.0);
        ASSERT_EQ(whole.height, (149 * eighths + 7) / 8);
        ASSERT_EQ(whole.width, (173 * eighths + 7) / 8);
        for (const ImageRegion region :
             {ImageRegion{0, 0, 80, 90}, ImageRegion{69, 83, 80, 90}, ImageRegion{33, 40, 64, 70},
              ImageRegion{17, 101, 80, 64}, ImageRegion{0, 100, 149, 70},
              ImageRegion{60, 0, 40, 173}}) {
          const DecodedImage part = decode(file, {.region = region,
                                                  .min_height = region.height * eighths / 8,
                                                  .min_width = region.width * eighths / 8});
          expect_part_of(part, whole, region,
                         std::to_string(sampling.horizontal) + "x" +
                             std::to_string(sampling.vertical) + " " + std::to_string(eighths) +
                             "/8 region at " + std::to_string(region.top) + "," +
                             std::to_string(region.left) + (progressive ? " progressive" : ""));
        }
      }
    }
  }
}

TEST(Image, TheScaleIsTheSmallestThatCovers) {
  const std::string file = encode_jpeg(make_test_image(160, 240, 3));
  const auto scale = [&](int64_t height, int64_t width) {
    return decode(file, {.min_height = height, .min_width = width}).scale;
  };
  EXPECT_EQ(scale(0, 0), 1);
  EXPECT_EQ(scale(1, 1), 1 / 8.0);
  EXPECT_EQ(scale(20, 30), 1 / 8.0);
  EXPECT_EQ(scale(20, 31), 2 / 8.0);
  EXPECT_EQ(scale(80, 1), 4 / 8.0);
  EXPECT_EQ(scale(81, 1), 1);
  EXPECT_EQ(scale(INT64_MAX, INT64_MAX), 1);
}

TEST(Image, AJpegCutShortIsRefusedWhateverPartIsWanted) {
  const std::string file = encode_jpeg(make_test_image(120, 100, 3));
  for (const size_t left : {file.size() - 2, file.size() / 2}) {
    for (const auto& region :
         {std::optional<ImageRegion>(), std::optional(ImageRegion{0, 0, 8, 8})}) {
      const Error error = error_of(file.substr(0, left), {.region = region});
      EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
      EXPECT_THAT(error.message(), AllOf(HasSubstr("'a.image'"), HasSubstr("cut short")));
    }
  }
  EXPECT_EQ(error_of(file.substr(0, 30)).kind(), ErrorKind::kCorrupt);
}

TEST(Image, DamageIsAnErrorAndNotGrey) {
  const std::string jpeg = encode_jpeg(make_test_image(120, 100, 3), {.restart_interval = 4});
  std::string holes = jpeg;
  holes.replace(holes.size() / 2, 300, std::string(300, '\0'));
  EXPECT_THAT(error_of(holes).message(), HasSubstr("damaged JPEG"));
  // The end of the image in the middle of it.
  std::string early = encode_jpeg(make_test_image(120, 100, 3));
  early.replace(early.size() / 2, 2, "\xff\xd9");
  EXPECT_THAT(error_of(early).message(), HasSubstr("premature end"));
  const std::string png = encode_png(make_test_image(40, 40, 3));
  std::string flipped = png;
  flipped[png.size() / 2] ^= 4;
  EXPECT_EQ(error_of(flipped).kind(), ErrorKind::kCorrupt);
  for (const size_t left : {png.size() / 2, png.size() - 1, png.size() - 13, size_t{20}}) {
    EXPECT_THAT(error_of(png.substr(0, left)).message(), HasSubstr("damaged PNG")) << left;
  }
}

TEST(Image, BytesBehindTheImageAreNobodysBusiness) {
  const TestImage image = make_test_image(20, 20, 3);
  const std::string jpeg = encode_jpeg(image);
  EXPECT_EQ(pixels_of(decode(jpeg + "more")), pixels_of(decode(jpeg)));
  const std::string png = encode_png(image);
  EXPECT_EQ(pixels_of(decode(png + "more")), pixels_of(decode(png)));
}

// A header that promises more than its file can hold is found before memory is taken.
TEST(Image, SizesThatCannotBeAreRefused) {
  std::string jpeg = encode_jpeg(make_test_image(16, 16, 3));
  const size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, std::string("\x20\x00\x20\x00", 4));  // 8192 x 8192
  EXPECT_THAT(error_of(jpeg).message(), HasSubstr("8192 x 8192 pixels cannot come out of"));
  EXPECT_THAT(error_of(jpeg, {.max_pixels = 1 << 20}).message(), HasSubstr("limit of 1048576"));
  const std::string image = encode_png(make_test_image(100, 100, 1));
  const Error limit = error_of(image, {.max_pixels = 9999});
  EXPECT_EQ(limit.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(limit.message(), HasSubstr("100 x 100"));
}

TEST(Image, OptionsOutOfRangeAreRefused) {
  const std::string file = encode_png(make_test_image(10, 12, 3));
  EXPECT_THAT(error_of(file, {.channels = 4}).message(), HasSubstr("not 4"));
  for (const ImageRegion region :
       {ImageRegion{0, 0, 11, 1}, ImageRegion{0, 0, 1, 13}, ImageRegion{-1, 0, 1, 1},
        ImageRegion{0, 0, 0, 1}, ImageRegion{10, 0, 1, 1}, ImageRegion{INT64_MAX, 0, 1, 1},
        ImageRegion{1, 1, INT64_MAX, INT64_MAX}}) {
    const Error error = error_of(file, {.region = region});
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.message(), HasSubstr("10 x 12"));
  }
}

TEST(Image, TwelveBitsAreNotSupported) {
  std::string file = encode_jpeg(make_test_image(16, 16, 3));
  file[file.find("\xff\xc0") + 4] = 12;
  const Error error = error_of(file);
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("not supported"));
  EXPECT_NE(error.hint(), "");
}

TEST(Image, MemoryIsUsedAgain) {
  const std::string large = encode_jpeg(make_test_image(40, 50, 3));
  for (const std::string& small :
       {encode_jpeg(make_test_image(20, 30, 1)), encode_png(make_test_image(20, 30, 3))}) {
    DecodedImage first = decode(large);
    const uint8_t* memory = first.pixels.get();
    const DecodedImage second =
        decode_image(bytes_of(small), "x", {.channels = 1}, std::move(first)).value();
    EXPECT_EQ(second.pixels.get(), memory);
    EXPECT_EQ(pixels_of(second), pixels_of(decode(small, {.channels = 1})));
    const DecodedImage third = decode_image(bytes_of(large), "x", {}, decode(small)).value();
    EXPECT_EQ(pixels_of(third), pixels_of(decode(large)));
    // What was moved from says it has memory.
    const DecodedImage fourth = decode_image(bytes_of(small), "x", {}, std::move(first)).value();
    EXPECT_EQ(pixels_of(fourth), pixels_of(decode(small)));
  }
}

TEST(Image, PhotosOfOthersDecode) {
  const char* folder = std::getenv("MUSTER_TEST_DATA");
  // Files written by others do not come with the project: ./dev test names their folder.
  if (folder == nullptr) GTEST_SKIP() << "MUSTER_TEST_DATA is not set";
  const std::string dir = join_path(folder, "images/val/ants");
  int count = 0;
  for (const std::string& name : local_file_system().list_directory(dir).value()) {
    const std::string file = local_file_system().read_file(join_path(dir, name)).value();
    const ImageInfo info = image_info(bytes_of(file), name).value();
    const ImageRegion region{info.height / 4, info.width / 4, info.height / 2, info.width / 2};
    const DecodedImage whole = decode(file);
    expect_part_of(decode(file, {.region = region}), whole, region, name);
    ++count;
  }
  EXPECT_EQ(count, 20);
}

}  // namespace
}  // namespace muster::inline v0_1::formats
