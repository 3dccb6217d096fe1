// Images in JPEG: colours, parts at a scale, and damage.
#include <gmock/gmock.h>

#include <cstdlib>

#include "muster/formats/internal/image_testing.h"
#include "tests/support/test_images.h"

namespace muster::inline v0_1::formats {
namespace {

using internal::decoded;
using internal::expect_part_of;
using internal::image_error;
using internal::level_at;
using internal::pixels_of;
using ::testing::AllOf;
using testing::encode_jpeg;
using ::testing::HasSubstr;
using testing::JpegOptions;
using testing::make_test_image;
using testing::TestImage;

// The mean distance between the decoded image and the original.
double mean_error(const DecodedImage& image, const TestImage& truth) {
  EXPECT_EQ(image.height, truth.height);
  EXPECT_EQ(image.width, truth.width);
  EXPECT_EQ(image.channels, truth.channels);
  double sum = 0;
  for (size_t i = 0; i < truth.pixels.size(); ++i)
    sum += std::abs(int{image.pixels[i]} - int{truth.pixels[i]});
  return sum / static_cast<double>(truth.pixels.size());
}

TEST(Jpeg, EveryJpegIsNearWhatWasEncoded) {
  const TestImage colour = make_test_image(61, 83, 3);
  for (const int sampling : {1, 2}) {
    for (const bool progressive : {false, true}) {
      const std::string file = encode_jpeg(colour, {.quality = 98,
                                                    .horizontal_sampling = sampling,
                                                    .vertical_sampling = sampling,
                                                    .progressive = progressive});
      EXPECT_LT(mean_error(decoded(file), colour), sampling == 1 ? 2 : 6);
    }
  }
  const TestImage grey = make_test_image(20, 33, 1);
  const std::string grey_file = encode_jpeg(grey, {.quality = 98});
  EXPECT_LT(mean_error(decoded(grey_file, {.channels = 1}), grey), 2);
  const DecodedImage as_colour = decoded(grey_file);
  const DecodedImage as_grey = decoded(grey_file, {.channels = 1});
  for (int64_t i = 0; i < 20 * 33; ++i) {
    for (int64_t c = 0; c < 3; ++c)
      ASSERT_EQ(as_colour.pixels[static_cast<size_t>(3 * i + c)],
                as_grey.pixels[static_cast<size_t>(i)]);
  }
  EXPECT_LT(mean_error(decoded(encode_jpeg(colour, {.quality = 98,
                                                    .horizontal_sampling = 1,
                                                    .vertical_sampling = 1,
                                                    .arithmetic = true})),
                       colour),
            2);
}

TEST(Jpeg, InksBecomeColours) {
  TestImage inks{16, 16, 4, {}};
  for (int i = 0; i < 256; ++i) inks.pixels.insert(inks.pixels.end(), {255, 128, 0, 204});
  // As Adobe stores them, 255 is paper: red 255 * 0.8, green 128 * 0.8, blue 0.
  const std::vector<double> paper{204, 102.4, 0};
  // In other files, 255 is ink.
  const std::vector<double> ink{0, 127 * 51 / 255.0, 51};
  for (const bool adobe : {true, false}) {
    const DecodedImage image = decoded(encode_jpeg(inks, {.quality = 100, .adobe_marker = adobe}));
    for (int64_t c = 0; c < 3; ++c) {
      EXPECT_NEAR(level_at(image, 8, 8, c), (adobe ? paper : ink)[static_cast<size_t>(c)], 2)
          << adobe << " " << c;
    }
  }
  const DecodedImage ycck = decoded(encode_jpeg(inks, {.quality = 100, .ycck = true}));
  for (int64_t c = 0; c < 3; ++c)
    EXPECT_NEAR(level_at(ycck, 8, 8, c), paper[static_cast<size_t>(c)], 3) << c;
  const DecodedImage grey = decoded(encode_jpeg(inks, {.quality = 100}), {.channels = 1});
  EXPECT_NEAR(level_at(grey, 8, 8, 0), 0.299 * 204 + 0.587 * 102.4, 2);
}

// Scales, parts, kinds of colour sampling and progressive files: always the pixels of a whole
// decode.
TEST(Jpeg, APartOfAJpegAtAnyScaleIsThatPart) {
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
            decoded(file, {.min_height = 149 * eighths / 8, .min_width = 173 * eighths / 8});
        ASSERT_EQ(whole.scale, eighths / 8.0);
        ASSERT_EQ(whole.height, (149 * eighths + 7) / 8);
        ASSERT_EQ(whole.width, (173 * eighths + 7) / 8);
        for (const ImageRegion region :
             {ImageRegion{0, 0, 80, 90}, ImageRegion{69, 83, 80, 90}, ImageRegion{33, 40, 64, 70},
              ImageRegion{17, 101, 80, 64}, ImageRegion{0, 100, 149, 70},
              ImageRegion{60, 0, 40, 173}}) {
          const DecodedImage part = decoded(file, {.region = region,
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

TEST(Jpeg, TheScaleIsTheSmallestThatCovers) {
  const std::string file = encode_jpeg(make_test_image(160, 240, 3));
  const auto scale = [&](int64_t height, int64_t width) {
    return decoded(file, {.min_height = height, .min_width = width}).scale;
  };
  EXPECT_EQ(scale(0, 0), 1);
  EXPECT_EQ(scale(1, 1), 1 / 8.0);
  EXPECT_EQ(scale(20, 30), 1 / 8.0);
  EXPECT_EQ(scale(20, 31), 2 / 8.0);
  EXPECT_EQ(scale(80, 1), 4 / 8.0);
  EXPECT_EQ(scale(81, 1), 1);
  EXPECT_EQ(scale(INT64_MAX, INT64_MAX), 1);
}

TEST(Jpeg, AJpegCutShortIsRefusedWhateverPartIsWanted) {
  const std::string file = encode_jpeg(make_test_image(120, 100, 3));
  for (const size_t left : {file.size() - 2, file.size() / 2}) {
    for (const auto& region :
         {std::optional<ImageRegion>(), std::optional(ImageRegion{0, 0, 8, 8})}) {
      const Error error = image_error(file.substr(0, left), {.region = region});
      EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
      EXPECT_THAT(error.message(), AllOf(HasSubstr("'a.image'"), HasSubstr("cut short")));
    }
  }
  EXPECT_EQ(image_error(file.substr(0, 30)).kind(), ErrorKind::kCorrupt);
}

// As tf.io.decode_jpeg and OpenCV: the pixels before the damage are unchanged.
TEST(Jpeg, AJpegWithDamageBeforeItsEndIsDecodedAndSaysSo) {
  const TestImage truth = make_test_image(120, 100, 3);
  const std::string jpeg = encode_jpeg(truth, {.restart_interval = 4});
  const DecodedImage whole = decoded(jpeg);
  EXPECT_EQ(whole.damage, "");
  std::string holes = jpeg;
  holes.replace(holes.size() / 2, 300, std::string(300, '\0'));
  // The end of the image in the middle of it.
  std::string early = jpeg;
  early.replace(early.size() / 2, 2, "\xff\xd9");
  for (const auto& [file, said] : {std::pair{holes, ""}, {early, "premature end"}}) {
    const DecodedImage image = decoded(file);
    EXPECT_THAT(image.damage, HasSubstr(said));
    EXPECT_NE(image.damage, "") << said;
    ASSERT_EQ(image.height, 120);
    for (int64_t x = 0; x < 100; ++x) {
      for (int64_t c = 0; c < 3; ++c) ASSERT_EQ(level_at(image, 5, x, c), level_at(whole, 5, x, c));
    }
    EXPECT_NE(pixels_of(image), pixels_of(whole)) << said;
  }
  // Bytes that belong to nothing, in front of a marker: nothing is lost.
  std::string more = jpeg;
  more.insert(more.find("\xff\xd3"), "abc");
  EXPECT_EQ(pixels_of(decoded(more)), pixels_of(whole));
}

TEST(Jpeg, AJpegThatLostItsEndIsDecodedWhenAskedFor) {
  const std::string file = encode_jpeg(make_test_image(120, 100, 3), {.restart_interval = 4});
  const std::string cut = file.substr(0, file.size() / 2);
  EXPECT_THAT(image_error(cut).hint(), HasSubstr("try_recover_truncated"));
  const DecodedImage image = decoded(cut, {.try_recover_truncated = true});
  EXPECT_THAT(image.damage, HasSubstr("remature end"));
  const DecodedImage whole = decoded(file);
  for (int64_t x = 0; x < 100; ++x) ASSERT_EQ(level_at(image, 5, x, 0), level_at(whole, 5, x, 0));
  EXPECT_EQ(pixels_of(decoded(file.substr(0, file.size() - 2), {.try_recover_truncated = true})),
            pixels_of(whole));
  EXPECT_EQ(image_error(file.substr(0, 30), {.try_recover_truncated = true}).kind(),
            ErrorKind::kCorrupt);
}

TEST(Jpeg, TwelveBitsAreNotSupported) {
  std::string file = encode_jpeg(make_test_image(16, 16, 3));
  file[file.find("\xff\xc0") + 4] = 12;
  const Error error = image_error(file);
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("not supported"));
  EXPECT_NE(error.hint(), "");
}

}  // namespace
}  // namespace muster::inline v0_1::formats
