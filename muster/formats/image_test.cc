#include "muster/formats/image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/formats/internal/test_bytes.h"
#include "tests/support/test_images.h"

namespace muster::inline v0_1::formats {
namespace {

using ::testing::AllOf;
using testing::encode_bmp;
using testing::encode_gif;
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
  EXPECT_EQ(image_kind(bytes_of(encode_bmp(image))), ImageKind::kBmp);
  EXPECT_EQ(image_kind(bytes_of(encode_gif(make_test_image(5, 7, 1)))), ImageKind::kGif);
  EXPECT_EQ(image_kind(bytes_of("BM is how this text begins, and that is all")), std::nullopt);
  EXPECT_EQ(image_kind(Bytes()), std::nullopt);
  EXPECT_THAT(error_of("II+no tiff").message(),
              AllOf(HasSubstr("'a.image'"), HasSubstr("no JPEG, PNG, BMP or GIF"),
                    HasSubstr("49 49 2b 6e")));
  EXPECT_THAT(error_of("RIFF\1\2\3\4WEBPVP8 ").message(), HasSubstr("is a WebP"));
  EXPECT_THAT(error_of("<html>").message(), HasSubstr("HTML"));
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

TEST(Image, SixteenBitsAreKeptWhenAskedFor) {
  const auto levels = [](const DecodedImage& image) {
    EXPECT_EQ(image.bits, 16);
    const auto* from = reinterpret_cast<const uint16_t*>(image.pixels.get());
    return std::vector<uint16_t>(from, from + image.height * image.width * image.channels);
  };
  // encode_png() writes each byte twice, which is a byte times 257.
  const TestImage image = make_test_image(13, 21, 3);
  for (const bool interlaced : {false, true}) {
    const std::string deep = encode_png(image, {.interlaced = interlaced, .bits = 16});
    const std::vector<uint16_t> colours = levels(decode(deep, {.bits = 16}));
    for (size_t i = 0; i < colours.size(); ++i) ASSERT_EQ(colours[i], 257 * image.pixels[i]);
    const std::vector<uint16_t> greys = levels(decode(deep, {.channels = 1, .bits = 16}));
    for (size_t i = 0; i < greys.size(); ++i) {
      const double luma =
          0.299 * colours[3 * i] + 0.587 * colours[3 * i + 1] + 0.114 * colours[3 * i + 2];
      ASSERT_NEAR(greys[i], luma, 1.01);  // weights are of 16 bits
    }
    EXPECT_EQ(levels(decode(deep, {.bits = 16, .region = ImageRegion{3, 4, 5, 6}})).front(),
              257 * image.at(3, 4, 0));
  }
  for (const std::string& file : {encode_png(image), encode_bmp(image)}) {
    const std::vector<uint16_t> wide = levels(decode(file, {.bits = 16}));
    for (size_t i = 0; i < wide.size(); ++i) ASSERT_EQ(wide[i], 257 * image.pixels[i]);
  }
  EXPECT_EQ(error_of(encode_png(image), {.bits = 12}).kind(), ErrorKind::kInvalidArgument);
}

TEST(Image, EveryBmpIsWhatWasEncoded) {
  const TestImage image = make_test_image(13, 21, 3);
  for (const bool top_down : {false, true}) {
    for (const int bits : {16, 24, 32}) {
      for (const bool masks : {false, true}) {
        if (masks && bits != 32) continue;
        const std::string file =
            encode_bmp(image, {.bits = bits, .top_down = top_down, .masks = masks});
        const DecodedImage colour = decode(file);
        ASSERT_EQ(colour.height, 13);
        ASSERT_EQ(colour.width, 21);
        for (int y = 0; y < 13; ++y) {
          for (int x = 0; x < 21; ++x) {
            for (int c = 0; c < 3; ++c) {
              const int level = image.at(y, x, c);
              ASSERT_EQ(at(colour, y, x, c), bits == 16 ? (level / 8 * 255 + 15) / 31 : level)
                  << bits << " at " << y << ", " << x;
            }
          }
        }
        const ImageRegion region{4, 5, 6, 7};
        expect_part_of(decode(file, {.region = region}), colour, region, "BMP");
        for (const size_t left : {size_t{20}, size_t{40}, file.size() / 2, file.size() - 4})
          EXPECT_EQ(error_of(file.substr(0, left)).kind(), ErrorKind::kCorrupt) << left;
      }
    }
    const TestImage grey = make_test_image(6, 5, 1);
    EXPECT_EQ(
        pixels_of(decode(encode_bmp(grey, {.bits = 8, .top_down = top_down}), {.channels = 1})),
        grey.pixels);
  }
  // Two bits of a palette of OS/2: red, green, of which the second row is first.
  const std::string old = std::string("BM\x28\0\0\0\0\0\0\0\x20\0\0\0", 14) +
                          std::string("\x0c\0\0\0\x02\0\x02\0\x01\0\x01\0", 12) +
                          std::string("\0\0\xff\0\xff\0", 6) +
                          std::string("\x40\0\0\0\x80\0\0\0", 8);
  EXPECT_EQ(pixels_of(decode(old)),
            (std::vector<uint8_t>{0, 255, 0, 255, 0, 0, 255, 0, 0, 0, 255, 0}));
  std::string runs = encode_bmp(make_test_image(4, 4, 1), {.bits = 8});
  runs[30] = 1;
  EXPECT_THAT(error_of(runs).message(), HasSubstr("not supported: 'a.image', a BMP: its pixels"));
  std::string vast = encode_bmp(make_test_image(4, 4, 3));
  vast.replace(18, 8, "\xff\xff\xff\x7f\xff\xff\xff\x7f");
  EXPECT_THAT(error_of(vast).message(), HasSubstr("cut short"));
}

TEST(Image, EveryGifIsWhatWasEncoded) {
  // Written by somebody else: red and blue in the corners, white in the middle.
  const std::string others = from_hex(
      "4749463839610a000a00910000ffffffff00000000ff00000021f90400000000002c000000000a000a0000021"
      "68c2d99872a1cdc33a00275ec95faa8de608c04914c01003b");
  const DecodedImage sample = decode(others);
  ASSERT_EQ(sample.height, 10);
  std::string seen;
  for (int64_t y = 0; y < 10; ++y) {
    for (int64_t x = 0; x < 10; ++x) {
      seen += at(sample, y, x, 1) == 255 ? 'w' : at(sample, y, x, 0) == 255 ? 'r' : 'b';
    }
  }
  const auto times = [](const std::string& row, int count) {
    std::string rows;
    for (int i = 0; i < count; ++i) rows += row;
    return rows;
  };
  EXPECT_EQ(seen, times("rrrrrbbbbb", 3) + times("rrrwwwwbbb", 2) + times("bbbwwwwrrr", 2) +
                      times("bbbbbrrrrr", 3));
  // No pixels come of a code that stands for nothing: where only single pixels can be, and later.
  struct Impossible {
    size_t at;
    char packed;
    const char* code;
  };
  for (const auto& [at, packed, code] :
       {Impossible{0, '\xb4', "the code 6 "}, Impossible{0, '\xcc', "the code 7 "},
        Impossible{2, '\x9b', "the code 11 "}, Impossible{20, '\x6c', "the code 44 "}}) {
    std::string file = others;
    file[others.find('\x8c') + at] = packed;
    EXPECT_THAT(error_of(file).message(), HasSubstr(code));
  }
  // Large enough that the table of codes is full, and begun again.
  for (const auto& [height, width] : {std::pair{1, 1}, {7, 5}, {90, 110}}) {
    const TestImage indices = make_test_image(height, width, 1);
    for (const bool interlaced : {false, true}) {
      const std::string file = encode_gif(indices, {.interlaced = interlaced});
      const DecodedImage image = decode(file);
      ASSERT_EQ(image.height, height);
      ASSERT_EQ(image.width, width);
      for (int y = 0; y < height; ++y) {
        for (int x = 0; x < width; ++x) {
          uint8_t rgb[3];
          testing::palette_colour(indices.at(y, x, 0), rgb);
          for (int c = 0; c < 3; ++c) ASSERT_EQ(at(image, y, x, c), rgb[c]) << y << ", " << x;
        }
      }
      for (const size_t left : {size_t{8}, size_t{700}, file.size() - 8})
        EXPECT_EQ(error_of(file.substr(0, left)).kind(), ErrorKind::kCorrupt) << left;
    }
  }
}

// Black is what the first frame leaves out, as in tf.io.decode_gif.
TEST(Image, AGifIsBlackWhereNothingIsSeen) {
  TestImage indices = make_test_image(4, 4, 1);
  indices.pixels.assign(16, 200);
  indices.pixels[5] = 7;
  const DecodedImage image = decode(encode_gif(
      indices, {.canvas_height = 6, .canvas_width = 9, .top = 1, .left = 2, .transparent = 7}));
  EXPECT_EQ(image.height, 6);
  EXPECT_EQ(image.width, 9);
  uint8_t rgb[3];
  testing::palette_colour(200, rgb);
  for (int y = 0; y < 6; ++y) {
    for (int x = 0; x < 9; ++x) {
      const bool seen = y >= 1 && y < 5 && x >= 2 && x < 6 && !(y == 2 && x == 3);
      for (int c = 0; c < 3; ++c) ASSERT_EQ(at(image, y, x, c), seen ? rgb[c] : 0);
    }
  }
  std::string vast = encode_gif(indices);
  vast.replace(6, 4, "\xff\xff\xff\xff");
  EXPECT_THAT(error_of(vast, {.max_pixels = int64_t{1} << 40}).message(),
              HasSubstr("cannot come out of"));
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

// As tf.io.decode_jpeg and OpenCV: what is in front of the damage is as it was.
TEST(Image, AJpegWithDamageBeforeItsEndIsDecodedAndSaysSo) {
  const TestImage truth = make_test_image(120, 100, 3);
  const std::string jpeg = encode_jpeg(truth, {.restart_interval = 4});
  const DecodedImage whole = decode(jpeg);
  EXPECT_EQ(whole.damage, "");
  std::string holes = jpeg;
  holes.replace(holes.size() / 2, 300, std::string(300, '\0'));
  // The end of the image in the middle of it.
  std::string early = jpeg;
  early.replace(early.size() / 2, 2, "\xff\xd9");
  for (const auto& [file, said] : {std::pair{holes, ""}, {early, "premature end"}}) {
    const DecodedImage image = decode(file);
    EXPECT_THAT(image.damage, HasSubstr(said));
    EXPECT_NE(image.damage, "") << said;
    ASSERT_EQ(image.height, 120);
    for (int64_t x = 0; x < 100; ++x) {
      for (int64_t c = 0; c < 3; ++c) ASSERT_EQ(at(image, 5, x, c), at(whole, 5, x, c));
    }
    EXPECT_NE(pixels_of(image), pixels_of(whole)) << said;
  }
  // Bytes that belong to nothing, in front of a marker: nothing is lost.
  std::string more = jpeg;
  more.insert(more.find("\xff\xd3"), "abc");
  EXPECT_EQ(pixels_of(decode(more)), pixels_of(whole));
}

TEST(Image, AJpegThatLostItsEndIsDecodedWhenAskedFor) {
  const std::string file = encode_jpeg(make_test_image(120, 100, 3), {.restart_interval = 4});
  const std::string cut = file.substr(0, file.size() / 2);
  EXPECT_THAT(error_of(cut).hint(), HasSubstr("try_recover_truncated"));
  const DecodedImage image = decode(cut, {.try_recover_truncated = true});
  EXPECT_THAT(image.damage, HasSubstr("remature end"));
  const DecodedImage whole = decode(file);
  for (int64_t x = 0; x < 100; ++x) ASSERT_EQ(at(image, 5, x, 0), at(whole, 5, x, 0));
  EXPECT_EQ(pixels_of(decode(file.substr(0, file.size() - 2), {.try_recover_truncated = true})),
            pixels_of(whole));
  EXPECT_EQ(error_of(file.substr(0, 30), {.try_recover_truncated = true}).kind(),
            ErrorKind::kCorrupt);
}

TEST(Image, DamageOfOthersIsAnError) {
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
