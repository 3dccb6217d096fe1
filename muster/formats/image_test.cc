#include "muster/formats/image.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "muster/base/file_system.h"
#include "muster/formats/internal/image_testing.h"
#include "muster/formats/internal/test_bytes.h"
#include "tests/support/test_images.h"

namespace muster::inline v0_1::formats {
namespace {

using internal::decoded;
using internal::expect_part_of;
using internal::image_error;
using internal::level_at;
using internal::pixels_of;
using ::testing::AllOf;
using testing::encode_bmp;
using testing::encode_gif;
using testing::encode_jpeg;
using testing::encode_png;
using ::testing::HasSubstr;
using testing::make_test_image;
using testing::TestImage;

TEST(Image, KindsAreKnownByTheirFirstBytes) {
  const TestImage image = make_test_image(5, 7, 3);
  EXPECT_EQ(image_kind(bytes_of(encode_jpeg(image))), ImageKind::kJpeg);
  EXPECT_EQ(image_kind(bytes_of(encode_png(image))), ImageKind::kPng);
  EXPECT_EQ(image_kind(bytes_of(encode_bmp(image))), ImageKind::kBmp);
  EXPECT_EQ(image_kind(bytes_of(encode_gif(make_test_image(5, 7, 1)))), ImageKind::kGif);
  EXPECT_EQ(image_kind(bytes_of("BM is how this text begins, and that is all")), std::nullopt);
  EXPECT_EQ(image_kind(Bytes()), std::nullopt);
  std::string signed_by_its_program = encode_bmp(image);
  signed_by_its_program.replace(6, 4, "\1\2\3\4");
  EXPECT_EQ(image_kind(bytes_of(signed_by_its_program)), ImageKind::kBmp);
  EXPECT_THAT(image_error("II+no tiff").message(),
              AllOf(HasSubstr("'a.image'"), HasSubstr("not a JPEG, PNG, BMP or GIF"),
                    HasSubstr("49 49 2b 6e")));
  EXPECT_THAT(image_error("RIFF\1\2\3\4WEBPVP8 ").message(), HasSubstr("is a WebP"));
  EXPECT_THAT(image_error("<html>").message(), HasSubstr("HTML"));
  EXPECT_THAT(image_error("").message(), HasSubstr("empty"));
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

TEST(Image, EveryPngIsWhatWasEncoded) {
  for (const bool interlaced : {false, true}) {
    for (const int bits : {8, 16}) {
      for (const int channels : {1, 2, 3, 4}) {
        const TestImage image = make_test_image(13, 21, channels);
        const std::string file = encode_png(image, {.interlaced = interlaced, .bits = bits});
        const DecodedImage colour = decoded(file);
        const DecodedImage grey = decoded(file, {.channels = 1});
        for (int y = 0; y < 13; ++y) {
          for (int x = 0; x < 21; ++x) {
            double luma = 0;
            for (int c = 0; c < 3; ++c) {
              const int stored = image.at(y, x, channels < 3 ? 0 : c);
              ASSERT_EQ(level_at(colour, y, x, c), stored) << channels << " channels, " << bits;
              luma += (c == 0 ? 0.299 : c == 1 ? 0.587 : 0.114) * stored;
            }
            ASSERT_NEAR(level_at(grey, y, x, 0), luma, 0.51);
          }
        }
      }
    }
    for (const int bits : {1, 2, 4}) {
      const TestImage image = make_test_image(9, 19, 1);
      const DecodedImage grey =
          decoded(encode_png(image, {.interlaced = interlaced, .bits = bits}), {.channels = 1});
      const int most = (1 << bits) - 1;
      for (int y = 0; y < 9; ++y) {
        for (int x = 0; x < 19; ++x)
          ASSERT_EQ(level_at(grey, y, x, 0), (image.at(y, x, 0) >> (8 - bits)) * 255 / most)
              << bits;
      }
    }
    const TestImage indices = make_test_image(11, 10, 1);
    const DecodedImage colours =
        decoded(encode_png(indices, {.interlaced = interlaced, .palette = true}));
    for (int y = 0; y < 11; ++y) {
      for (int x = 0; x < 10; ++x) {
        uint8_t rgb[3];
        testing::palette_colour(indices.at(y, x, 0), rgb);
        for (int c = 0; c < 3; ++c) ASSERT_EQ(level_at(colours, y, x, c), rgb[c]);
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
    const std::vector<uint16_t> colours = levels(decoded(deep, {.bits = 16}));
    for (size_t i = 0; i < colours.size(); ++i) ASSERT_EQ(colours[i], 257 * image.pixels[i]);
    const std::vector<uint16_t> greys = levels(decoded(deep, {.channels = 1, .bits = 16}));
    for (size_t i = 0; i < greys.size(); ++i) {
      const double luma =
          0.299 * colours[3 * i] + 0.587 * colours[3 * i + 1] + 0.114 * colours[3 * i + 2];
      ASSERT_NEAR(greys[i], luma, 1.01);  // weights are of 16 bits
    }
    EXPECT_EQ(levels(decoded(deep, {.bits = 16, .region = ImageRegion{3, 4, 5, 6}})).front(),
              257 * image.at(3, 4, 0));
  }
  for (const std::string& file : {encode_png(image), encode_bmp(image)}) {
    const std::vector<uint16_t> wide = levels(decoded(file, {.bits = 16}));
    for (size_t i = 0; i < wide.size(); ++i) ASSERT_EQ(wide[i], 257 * image.pixels[i]);
  }
  EXPECT_EQ(image_error(encode_png(image), {.bits = 12}).kind(), ErrorKind::kInvalidArgument);
}

TEST(Image, EveryBmpIsWhatWasEncoded) {
  const TestImage image = make_test_image(13, 21, 3);
  for (const bool top_down : {false, true}) {
    for (const int bits : {16, 24, 32}) {
      for (const bool masks : {false, true}) {
        if (masks && bits != 32) continue;
        const std::string file =
            encode_bmp(image, {.bits = bits, .top_down = top_down, .masks = masks});
        const DecodedImage colour = decoded(file);
        ASSERT_EQ(colour.height, 13);
        ASSERT_EQ(colour.width, 21);
        for (int y = 0; y < 13; ++y) {
          for (int x = 0; x < 21; ++x) {
            for (int c = 0; c < 3; ++c) {
              const int level = image.at(y, x, c);
              ASSERT_EQ(level_at(colour, y, x, c), bits == 16 ? (level / 8 * 255 + 15) / 31 : level)
                  << bits << " at " << y << ", " << x;
            }
          }
        }
        const ImageRegion region{4, 5, 6, 7};
        expect_part_of(decoded(file, {.region = region}), colour, region, "BMP");
        for (const size_t left : {size_t{20}, size_t{40}, file.size() / 2, file.size() - 4})
          EXPECT_EQ(image_error(file.substr(0, left)).kind(), ErrorKind::kCorrupt) << left;
      }
    }
    const TestImage grey = make_test_image(6, 5, 1);
    EXPECT_EQ(
        pixels_of(decoded(encode_bmp(grey, {.bits = 8, .top_down = top_down}), {.channels = 1})),
        grey.pixels);
  }
  // Two bits of a palette of OS/2: red, green, of which the second row is first.
  const std::string old = std::string("BM\x28\0\0\0\0\0\0\0\x20\0\0\0", 14) +
                          std::string("\x0c\0\0\0\x02\0\x02\0\x01\0\x01\0", 12) +
                          std::string("\0\0\xff\0\xff\0", 6) +
                          std::string("\x40\0\0\0\x80\0\0\0", 8);
  EXPECT_EQ(pixels_of(decoded(old)),
            (std::vector<uint8_t>{0, 255, 0, 255, 0, 0, 255, 0, 0, 0, 255, 0}));
  std::string runs = encode_bmp(make_test_image(4, 4, 1), {.bits = 8});
  runs[30] = 1;
  EXPECT_THAT(image_error(runs).message(),
              HasSubstr("not supported: 'a.image', a BMP: its pixels"));
  std::string vast = encode_bmp(make_test_image(4, 4, 3));
  vast.replace(18, 8, "\xff\xff\xff\x7f\xff\xff\xff\x7f");
  EXPECT_THAT(image_error(vast).message(), HasSubstr("cut short"));
}

TEST(Image, EveryGifIsWhatWasEncoded) {
  // Written by another program: red and blue in the corners, white in the middle.
  const std::string others = from_hex(
      "4749463839610a000a00910000ffffffff00000000ff00000021f90400000000002c000000000a000a0000021"
      "68c2d99872a1cdc33a00275ec95faa8de608c04914c01003b");
  const DecodedImage sample = decoded(others);
  ASSERT_EQ(sample.height, 10);
  std::string seen;
  for (int64_t y = 0; y < 10; ++y) {
    for (int64_t x = 0; x < 10; ++x) {
      seen += level_at(sample, y, x, 1) == 255 ? 'w' : level_at(sample, y, x, 0) == 255 ? 'r' : 'b';
    }
  }
  const auto times = [](const std::string& row, int count) {
    std::string rows;
    for (int i = 0; i < count; ++i) rows += row;
    return rows;
  };
  EXPECT_EQ(seen, times("rrrrrbbbbb", 3) + times("rrrwwwwbbb", 2) + times("bbbwwwwrrr", 2) +
                      times("bbbbbrrrrr", 3));
  // An undefined code gives no pixels: where only codes of single pixels are allowed, and later.
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
    EXPECT_THAT(image_error(file).message(), HasSubstr(code));
  }
  // Large enough that the table of codes is full, and begun again.
  for (const auto& [height, width] : {std::pair{1, 1}, {7, 5}, {90, 110}}) {
    const TestImage indices = make_test_image(height, width, 1);
    for (const bool interlaced : {false, true}) {
      const std::string file = encode_gif(indices, {.interlaced = interlaced});
      const DecodedImage image = decoded(file);
      ASSERT_EQ(image.height, height);
      ASSERT_EQ(image.width, width);
      for (int y = 0; y < height; ++y) {
        for (int x = 0; x < width; ++x) {
          uint8_t rgb[3];
          testing::palette_colour(indices.at(y, x, 0), rgb);
          for (int c = 0; c < 3; ++c) ASSERT_EQ(level_at(image, y, x, c), rgb[c]) << y << ", " << x;
        }
      }
      for (const size_t left : {size_t{8}, size_t{700}, file.size() - 8})
        EXPECT_EQ(image_error(file.substr(0, left)).kind(), ErrorKind::kCorrupt) << left;
    }
  }
}

// Pixels that the first frame leaves out are black, as in tf.io.decode_gif.
TEST(Image, AGifIsBlackWhereNothingIsSeen) {
  TestImage indices = make_test_image(4, 4, 1);
  indices.pixels.assign(16, 200);
  indices.pixels[5] = 7;
  const DecodedImage image = decoded(encode_gif(
      indices, {.canvas_height = 6, .canvas_width = 9, .top = 1, .left = 2, .transparent = 7}));
  EXPECT_EQ(image.height, 6);
  EXPECT_EQ(image.width, 9);
  uint8_t rgb[3];
  testing::palette_colour(200, rgb);
  for (int y = 0; y < 6; ++y) {
    for (int x = 0; x < 9; ++x) {
      const bool seen = y >= 1 && y < 5 && x >= 2 && x < 6 && !(y == 2 && x == 3);
      for (int c = 0; c < 3; ++c) ASSERT_EQ(level_at(image, y, x, c), seen ? rgb[c] : 0);
    }
  }
  std::string vast = encode_gif(indices);
  vast.replace(6, 4, "\xff\xff\xff\xff");
  EXPECT_THAT(image_error(vast, {.max_pixels = int64_t{1} << 40}).message(),
              HasSubstr("cannot come out of"));
}

TEST(Image, APartOfAPngIsThatPart) {
  const TestImage image = make_test_image(30, 40, 3);
  for (const bool interlaced : {false, true}) {
    const std::string file = encode_png(image, {.interlaced = interlaced});
    const DecodedImage whole = decoded(file);
    for (const ImageRegion region : {ImageRegion{0, 0, 30, 40}, ImageRegion{29, 39, 1, 1},
                                     ImageRegion{5, 7, 11, 13}, ImageRegion{0, 20, 30, 1}}) {
      const DecodedImage part = decoded(file, {.region = region, .min_height = 1, .min_width = 1});
      EXPECT_EQ(part.height, region.height);
      EXPECT_EQ(part.width, region.width);
      expect_part_of(part, whole, region, interlaced ? "interlaced" : "plain");
    }
  }
}

TEST(Image, DamageOfOthersIsAnError) {
  const std::string png = encode_png(make_test_image(40, 40, 3));
  std::string flipped = png;
  flipped[png.size() / 2] ^= 4;
  EXPECT_EQ(image_error(flipped).kind(), ErrorKind::kCorrupt);
  for (const size_t left : {png.size() / 2, png.size() - 1, png.size() - 13, size_t{20}}) {
    EXPECT_THAT(image_error(png.substr(0, left)).message(), HasSubstr("damaged PNG")) << left;
  }
}

// The middle of an image alone is read as well: the rows above it hold a changed byte that is not
// visible, and so do those below it.
TEST(Image, DamageIsAnErrorWhateverPartIsWanted) {
  const std::string png = encode_png(make_test_image(40, 40, 3));
  const ImageDecodeOptions middle{.region = ImageRegion{4, 4, 8, 8}};
  EXPECT_EQ(decoded(png, middle).height, 8);
  EXPECT_EQ(decoded(png + "more", middle).height, 8);
  const size_t begin = png.find("IDAT"), end = png.rfind("IEND");
  for (size_t at = begin + 4; at + 8 < end; at += 7) {
    std::string flipped = png;
    flipped[at] ^= 4;
    EXPECT_THAT(image_error(flipped, middle).message(), HasSubstr("damaged PNG")) << at;
  }
  EXPECT_THAT(image_error(png.substr(0, end - 20), middle).message(), HasSubstr("cut short"));
}

TEST(Image, BytesAfterTheImageAreIgnored) {
  const TestImage image = make_test_image(20, 20, 3);
  const std::string jpeg = encode_jpeg(image);
  EXPECT_EQ(pixels_of(decoded(jpeg + "more")), pixels_of(decoded(jpeg)));
  const std::string png = encode_png(image);
  EXPECT_EQ(pixels_of(decoded(png + "more")), pixels_of(decoded(png)));
}

// A header that promises more than its file can hold is found before memory is taken.
TEST(Image, SizesThatCannotBeAreRefused) {
  std::string jpeg = encode_jpeg(make_test_image(16, 16, 3));
  const size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, std::string("\x20\x00\x20\x00", 4));  // 8192 x 8192
  EXPECT_THAT(image_error(jpeg).message(), HasSubstr("8192 x 8192 pixels cannot come out of"));
  EXPECT_THAT(image_error(jpeg, {.max_pixels = 1 << 20}).message(), HasSubstr("limit of 1048576"));
  const std::string image = encode_png(make_test_image(100, 100, 1));
  const Error limit = image_error(image, {.max_pixels = 9999});
  EXPECT_EQ(limit.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(limit.message(), HasSubstr("100 x 100"));
}

TEST(Image, OptionsOutOfRangeAreRefused) {
  const std::string file = encode_png(make_test_image(10, 12, 3));
  EXPECT_THAT(image_error(file, {.channels = 4}).message(), HasSubstr("not 4"));
  for (const ImageRegion region :
       {ImageRegion{0, 0, 11, 1}, ImageRegion{0, 0, 1, 13}, ImageRegion{-1, 0, 1, 1},
        ImageRegion{0, 0, 0, 1}, ImageRegion{10, 0, 1, 1}, ImageRegion{INT64_MAX, 0, 1, 1},
        ImageRegion{1, 1, INT64_MAX, INT64_MAX}}) {
    const Error error = image_error(file, {.region = region});
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.message(), HasSubstr("10 x 12"));
  }
}

TEST(Image, MemoryIsUsedAgain) {
  const std::string large = encode_jpeg(make_test_image(40, 50, 3));
  for (const std::string& small :
       {encode_jpeg(make_test_image(20, 30, 1)), encode_png(make_test_image(20, 30, 3))}) {
    DecodedImage first = decoded(large);
    const uint8_t* memory = first.pixels.get();
    const DecodedImage second =
        decode_image(bytes_of(small), "x", {.channels = 1}, std::move(first)).value();
    EXPECT_EQ(second.pixels.get(), memory);
    EXPECT_EQ(pixels_of(second), pixels_of(decoded(small, {.channels = 1})));
    const DecodedImage third = decode_image(bytes_of(large), "x", {}, decoded(small)).value();
    EXPECT_EQ(pixels_of(third), pixels_of(decoded(large)));
    // A moved-from image reports that it has memory.
    const DecodedImage fourth = decode_image(bytes_of(small), "x", {}, std::move(first)).value();
    EXPECT_EQ(pixels_of(fourth), pixels_of(decoded(small)));
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
    const DecodedImage whole = decoded(file);
    expect_part_of(decoded(file, {.region = region}), whole, region, name);
    ++count;
  }
  EXPECT_EQ(count, 20);
}

}  // namespace
}  // namespace muster::inline v0_1::formats
