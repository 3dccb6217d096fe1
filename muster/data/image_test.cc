#include "muster/data/image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "muster/base/error_of.h"
#include "muster/base/log.h"
#include "muster/data/image_ops.h"
#include "muster/tensor/libtorch.h"
#include "tests/support/test_images.h"

namespace muster::inline v0_1::data {
namespace {

using testing::encode_jpeg;
using testing::encode_png;
using ::testing::HasSubstr;
using testing::make_test_image;
using testing::TestImage;

Tensor tensor_of(const TestImage& image) {
  return torch::tensor(image.pixels, at::kByte).view({image.height, image.width, image.channels});
}

double mean_difference(const Tensor& a, const Tensor& b) {
  return (a.to(kFloat32) - b.to(kFloat32)).abs().mean().item<double>();
}

double largest_difference(const Tensor& a, const Tensor& b) {
  return (a.to(kFloat32) - b.to(kFloat32)).abs().max().item<double>();
}

TEST(FitImage, DecodeGivesThePixels) {
  const TestImage image = make_test_image(12, 9, 3);
  EXPECT_TRUE(torch::equal(decode_image(encode_png(image)), tensor_of(image)));
  const Value value(Strings({encode_png(image)}));
  EXPECT_TRUE(torch::equal(decode_image(value.row(0)), tensor_of(image)));
  EXPECT_EQ(decode_image(encode_jpeg(image), 1).sizes(), (Shape{12, 9, 1}));
  EXPECT_THAT(error_of([&] { decode_image(Value(torch::ones({2}))); }).message(),
              HasSubstr("float32[2]"));
  EXPECT_THAT(error_of([&] { decode_image("nonsense", 3, "a.jpg"); }).message(),
              HasSubstr("'a.jpg'"));
}

// On PNG, which is always decoded whole, each fit is exactly its steps.
TEST(FitImage, EachFitIsItsSteps) {
  const TestImage image = make_test_image(60, 100, 3);
  const std::string file = encode_png(image);
  const Tensor pixels = tensor_of(image);
  EXPECT_TRUE(torch::equal(fit_image(file, {.height = 24, .width = 30, .dtype = kUInt8}),
                           resize(pixels, 24, 30)));
  // 0.8 * 60 = 48 rows and columns, from row 6 and column 26.
  EXPECT_TRUE(torch::equal(fit_image(file, {.height = 24,
                                            .width = 24,
                                            .fit = ImageFit::kCenterCrop,
                                            .dtype = kUInt8,
                                            .crop_fraction = 0.8}),
                           resize(pixels.narrow(0, 6, 48).narrow(1, 26, 48), 24, 24)));
  const Tensor floats = fit_image(
      file, {.height = 24, .width = 30, .mean = {0.5, 0.25, 0.125}, .std = {0.5, 0.25, 2}});
  const std::vector<double> mean{0.5, 0.25, 0.125};
  const std::vector<double> deviation{0.5, 0.25, 2};
  EXPECT_TRUE(torch::allclose(floats, normalize(resize(to_float(pixels), 24, 30), mean, deviation),
                              1e-5, 1e-5));
  EXPECT_LT(largest_difference(fit_image(file, {.height = 8, .width = 8, .channels = 1}),
                               resize(to_float(decode_image(file, 1)), 8, 8)),
            1e-5);
}

// A JPEG is decoded smaller than it is, and only in part: nearly the same pixels come out.
TEST(FitImage, AScaledDecodeIsNearTheWholeOne) {
  TestImage image = make_test_image(400, 600, 3);
  const std::string file =
      encode_jpeg(image, {.quality = 95, .horizontal_sampling = 1, .vertical_sampling = 1});
  const Tensor pixels = to_float(decode_image(file));
  for (const int64_t size : {32, 64, 100, 224, 300}) {
    const Tensor stretched = fit_image(file, {.height = size, .width = size});
    EXPECT_LT(mean_difference(stretched, resize(pixels, size, size)), 0.012) << size;
    const Tensor middle = fit_image(
        file, {.height = size, .width = size, .fit = ImageFit::kCenterCrop, .crop_fraction = 1});
    EXPECT_LT(mean_difference(middle, resize(pixels.narrow(1, 100, 400), size, size)), 0.012)
        << size;
  }
}

// The places of a picture stay where they are: no scale shifts it by a part of a pixel.
TEST(FitImage, AScaledDecodeIsNotShifted) {
  for (const bool down : {false, true}) {
    // Pixel p has the value p, along one axis.
    TestImage ramp{256, 256, 1, {}};
    for (int y = 0; y < 256; ++y) {
      for (int x = 0; x < 256; ++x) ramp.pixels.push_back(static_cast<uint8_t>(down ? y : x));
    }
    const std::string file = encode_jpeg(ramp, {.quality = 100});
    for (const int64_t size : {16, 25, 32, 50, 64, 77, 100, 128, 250}) {
      const Tensor out = fit_image(file, {.height = size,
                                          .width = size,
                                          .channels = 1,
                                          .fit = ImageFit::kCenterCrop,
                                          .crop_fraction = 0.5});
      const Tensor line = (down ? out.permute({1, 0, 2}) : out)[size / 2].flatten().mul(255);
      double shift = 0;
      for (int64_t i = 1; i + 1 < size; ++i) {
        const double place = 64 + (static_cast<double>(i) + 0.5) * 128 / static_cast<double>(size);
        shift += line[i].item<double>() - (place - 0.5);
      }
      // The decoder rounds to whole numbers; half a pixel at 4/8 would be 1.
      EXPECT_LT(std::abs(shift / static_cast<double>(size - 2)), 0.55) << size << " " << down;
    }
  }
}

TEST(FitImage, RandomCropsAreFunctionsOfTheKeyAndMirrorHalf) {
  // Red encodes the column, green the row: the corners of the result show the box.
  TestImage image{120, 200, 3, {}};
  for (int y = 0; y < 120; ++y) {
    for (int x = 0; x < 200; ++x) {
      image.pixels.push_back(static_cast<uint8_t>(x));
      image.pixels.push_back(static_cast<uint8_t>(y));
      image.pixels.push_back(0);
    }
  }
  const std::string file = encode_png(image);
  const ImageOptions options{.height = 16, .width = 16, .fit = ImageFit::kRandomCrop};
  int mirrored = 0;
  double least = 1;
  double most = 0;
  for (uint64_t i = 0; i < 300; ++i) {
    const RandomKey key = derive_key(5, {i});
    const Tensor out = fit_image(file, options, key);
    ASSERT_TRUE(torch::equal(out, fit_image(file, options, key)));
    const double left = out[8][0][0].item<double>() * 255;
    const double right = out[8][15][0].item<double>() * 255;
    const double top = out[0][8][1].item<double>() * 255;
    const double bottom = out[15][8][1].item<double>() * 255;
    mirrored += left > right ? 1 : 0;
    // From the middle of the first pixel to the middle of the last: 15/16 of the box.
    const double width = std::abs(right - left) * 16 / 15;
    const double height = (bottom - top) * 16 / 15;
    const double part = width * height / (120 * 200);
    least = std::min(least, part);
    most = std::max(most, part);
    // Borders of the image and rounding to whole pixels bend both a little.
    ASSERT_GT(width / height, 0.70) << i;
    ASSERT_LT(width / height, 1.42) << i;
  }
  EXPECT_GT(least, 0.07);
  EXPECT_LT(least, 0.15);
  EXPECT_GT(most, 0.6);
  EXPECT_GT(mirrored, 110);
  EXPECT_LT(mirrored, 190);
}

TEST(FitImage, AnImageTooLongIsCroppedInTheMiddle) {
  TestImage image{4, 400, 3, {}};
  for (int y = 0; y < 4; ++y) {
    for (int x = 0; x < 400; ++x)
      image.pixels.insert(image.pixels.end(), {static_cast<uint8_t>(x / 2), 0, 0});
  }
  const ImageOptions options{.height = 8,
                             .width = 8,
                             .fit = ImageFit::kRandomCrop,
                             .dtype = kUInt8,
                             .area = {0.9, 1.0},
                             .flip_probability = 0};
  const Tensor out = fit_image(encode_png(image), options, derive_key(1, {}));
  EXPECT_NEAR(out[4][4][0].item<int>(), 100, 2);
}

TEST(FitImage, OptionsOutOfRangeAreRefused) {
  const std::string file = encode_png(make_test_image(8, 8, 3));
  const auto message = [&](const ImageOptions& options) {
    return error_of([&] { fit_image(file, options); }).message();
  };
  EXPECT_THAT(message({.height = 0}), HasSubstr("not 0 and 224"));
  EXPECT_THAT(message({.channels = 2}), HasSubstr("not 2"));
  EXPECT_THAT(message({.dtype = kInt64}), HasSubstr("int64"));
  EXPECT_THAT(message({.mean = {1}}), HasSubstr("mean has 1 numbers for 3 channels"));
  EXPECT_THAT(message({.dtype = kUInt8, .std = {1, 1, 1}}), HasSubstr("std is for float32"));
  EXPECT_THAT(message({.std = {1, 0, 1}}), HasSubstr("not 0"));
  EXPECT_THAT(message({.crop_fraction = 1.5}), HasSubstr("1.5"));
  EXPECT_THAT(message({.area = {0.5, 0.1}}), HasSubstr("from 0.5 to 0.1"));
  EXPECT_THAT(message({.aspect_ratio = {0, 1}}), HasSubstr("aspect_ratio"));
  EXPECT_THAT(message({.flip_probability = -1}), HasSubstr("-1"));
}

TEST(DecodeImage, EveryKindIsReadWhateverItIsCalled) {
  const TestImage image = make_test_image(12, 9, 3);
  EXPECT_TRUE(torch::equal(decode_image(testing::encode_bmp(image), 3, "a.jpg"), tensor_of(image)));
  const Tensor frame = decode_image(testing::encode_gif(make_test_image(12, 9, 1)), 3, "b.png");
  EXPECT_EQ(frame.sizes(), (Shape{12, 9, 3}));
}

TEST(DecodeImage, ADtypeThatHoldsThemKeepsSixteenBits) {
  // 0x1234 and 0x12ff are one number in 8 bits.
  const std::string deep = encode_png({1, 4, 1, {0x12, 0x12, 0xff, 0}},
                                      {.bits = 16, .low_bytes = {0x34, 0xff, 0xff, 0}});
  const auto levels = [](const Tensor& tensor) {
    const Tensor flat = tensor.flatten().to(kFloat64);
    return std::vector<double>(flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel());
  };
  EXPECT_EQ(levels(decode_image(deep, {.channels = 1, .dtype = kInt32})),
            (std::vector<double>{0x1234, 0x12ff, 0xffff, 0}));
  EXPECT_EQ(levels(decode_image(deep, {.channels = 1})), (std::vector<double>{18, 19, 255, 0}));
  const Tensor floats = decode_image(deep, {.channels = 1, .dtype = kFloat32});
  EXPECT_EQ(floats.scalar_type(), kFloat32);
  EXPECT_FLOAT_EQ(floats[0][0].item<float>(), 0x1234 / 65535.0f);
  // An image folder of floats keeps them too.
  EXPECT_TRUE(torch::allclose(fit_image(deep, {.height = 1, .width = 4, .channels = 1}).flatten(),
                              floats.flatten()));
  const TestImage image = make_test_image(5, 6, 3);
  EXPECT_TRUE(torch::equal(decode_image(encode_png(image), {.dtype = kInt32}),
                           tensor_of(image).to(kInt32) * 257));
  EXPECT_TRUE(torch::equal(decode_image(encode_png(image), {.dtype = kFloat32}),
                           tensor_of(image).to(kFloat32) / 255));
  EXPECT_THAT(error_of([&] { decode_image(deep, {.dtype = kInt64}); }).message(),
              HasSubstr("not int64"));
}

TEST(DecodeImage, DamagedPhotosAreCountedOnceEach) {
  std::string file = encode_jpeg(make_test_image(64, 64, 3), {.restart_interval = 4});
  file.replace(file.size() / 2, 2, "\xff\xd9");
  ::testing::internal::CaptureStderr();
  for (int pass = 0; pass < 2; ++pass) {
    for (const char* name : {"damaged-1.jpg", "damaged-2.jpg"})
      EXPECT_EQ(fit_image(file, {.height = 8, .width = 8}, {}, name).sizes(), (Shape{8, 8, 3}));
  }
  log::flush();
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("'damaged-1.jpg' is damaged and was decoded only in part (1 such "
                              "images so far): premature end of data segment"));
  EXPECT_THAT(
      said,
      HasSubstr("'damaged-2.jpg' is damaged and was decoded only in part (2 such images so far)"));
  EXPECT_EQ(said.find("damaged-1.jpg"), said.rfind("damaged-1.jpg"));
  const std::string cut = file.substr(0, file.size() / 2);
  EXPECT_THAT(error_of([&] { fit_image(cut, {}); }).message(), HasSubstr("cut short"));
  EXPECT_EQ(fit_image(cut, {.try_recover_truncated = true}).sizes(), (Shape{224, 224, 3}));
}

}  // namespace
}  // namespace muster::inline v0_1::data
