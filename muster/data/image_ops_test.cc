#include "muster/data/image_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>
#include <vector>

#include "muster/base/error_of.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Values that differ everywhere: 0, 1, 2, ... as float, modulo 251 as uint8.
Tensor counted(Shape shape, DType dtype = kFloat32) {
  int64_t size = 1;
  for (const int64_t axis : shape) size *= axis;
  return torch::arange(size).remainder(251).to(dtype).view(shape);
}

Tensor noise(Shape shape, uint64_t seed = 1) {
  Tensor out = torch::empty(shape);
  Random random(derive_key(seed, {}));
  for (int64_t i = 0; i < out.numel(); ++i) out.data_ptr<float>()[i] = random.uniform_float();
  return out;
}

// The definition, pixel by pixel in double precision: the mean of all input pixels, weighted by the
// product of two triangles around the place where the output pixel lies.
double reference(const Tensor& image, int64_t height, int64_t width, bool antialias, int64_t y,
                 int64_t x, int64_t c) {
  const auto weight = [&](int64_t in, int64_t out, int64_t o, int64_t i) {
    const double step = static_cast<double>(in) / static_cast<double>(out);
    const double reach = antialias ? std::max(step, 1.0) : 1.0;
    const double centre = (static_cast<double>(o) + 0.5) * step;
    return std::max(0.0, 1 - std::abs(static_cast<double>(i) + 0.5 - centre) / reach);
  };
  double sum = 0;
  double total = 0;
  const auto pixels = image.accessor<float, 3>();
  for (int64_t i = 0; i < image.size(0); ++i) {
    for (int64_t j = 0; j < image.size(1); ++j) {
      const double w = weight(image.size(0), height, y, i) * weight(image.size(1), width, x, j);
      sum += w * pixels[i][j][c];
      total += w;
    }
  }
  return sum / total;
}

TEST(ImageOps, ResizeIsItsDefinition) {
  for (const int64_t channels : {1, 2, 3, 4, 5, 7}) {
    const Tensor image = noise({13, 17, channels});
    for (const bool antialias : {true, false}) {
      for (const auto& [height, width] :
           {std::pair<int64_t, int64_t>{13, 17}, {5, 4}, {1, 1}, {26, 40}, {30, 3}, {2, 90}}) {
        const Tensor out = resize(image, height, width, {.antialias = antialias});
        ASSERT_EQ(out.sizes(), (Shape{height, width, channels}));
        const auto pixels = out.accessor<float, 3>();
        for (int64_t y = 0; y < height; ++y) {
          for (int64_t x = 0; x < width; ++x) {
            for (int64_t c = 0; c < channels; ++c)
              ASSERT_NEAR(pixels[y][x][c], reference(image, height, width, antialias, y, x, c),
                          2e-6);
          }
        }
      }
    }
  }
}

TEST(ImageOps, ResizeKeepsWhatItMust) {
  const Tensor image = noise({9, 11, 3});
  EXPECT_TRUE(torch::equal(resize(image, 9, 11), image));
  const Tensor bytes = counted({9, 11, 3}, kUInt8);
  EXPECT_TRUE(torch::equal(resize(bytes, 9, 11), bytes));
  for (const int64_t size : {1, 4, 9, 33}) {
    EXPECT_TRUE(torch::equal(resize(torch::full({9, 11, 3}, 200, at::kByte), size, size),
                             torch::full({size, size, 3}, 200, at::kByte)));
    EXPECT_TRUE(torch::allclose(resize(torch::full({9, 11, 3}, 0.7), size, size),
                                torch::full({size, size, 3}, 0.7)));
  }
  // A ramp stays one, away from the borders: pixel x has the value of its middle.
  const Tensor ramp = torch::arange(64, at::kFloat).view({1, 64, 1}).expand({8, 64, 1});
  for (const int64_t width : {16, 32, 128}) {
    const Tensor out = resize(ramp, 8, width);
    const double step = 64.0 / static_cast<double>(width);
    for (int64_t x = width / 8; x < width - width / 8; ++x)
      ASSERT_NEAR(out[3][x][0].item<float>(), (static_cast<double>(x) + 0.5) * step - 0.5, 1e-4);
  }
}

TEST(ImageOps, ResizeOfBytesIsThatOfFloatsRounded) {
  const Tensor bytes = noise({31, 23, 3}).mul(256).to(at::kByte);
  for (const auto& [height, width] : {std::pair<int64_t, int64_t>{10, 7}, {50, 60}}) {
    const Tensor out = resize(bytes, height, width);
    ASSERT_EQ(out.scalar_type(), kUInt8);
    const Tensor exact = resize(bytes.to(kFloat32), height, width);
    EXPECT_LE((out.to(kFloat32) - exact).abs().max().item<float>(), 0.5001f);
  }
}

// LibTorch's kernel is another implementation of the same definition.
TEST(ImageOps, ResizeAgreesWithLibTorch) {
  const Tensor images = noise({2, 40, 50, 3});
  const Tensor planes = images.permute({0, 3, 1, 2}).contiguous();
  for (const auto& [height, width] : {std::pair<int64_t, int64_t>{17, 23}, {64, 60}}) {
    const Tensor theirs =
        at::_upsample_bilinear2d_aa(planes, {height, width}, /*align_corners=*/false);
    EXPECT_TRUE(
        torch::allclose(resize(images, height, width), theirs.permute({0, 2, 3, 1}), 1e-5, 1e-5));
  }
}

TEST(ImageOps, PixelsWithoutWeightAreNotLookedAt) {
  Tensor image = noise({4, 4, 3});
  image[0][0].fill_(std::numeric_limits<float>::infinity());
  EXPECT_TRUE(torch::equal(resize(image, 4, 4), image));
  EXPECT_TRUE(torch::isfinite(resize(image, 2, 4)[1]).all().item<bool>());
}

TEST(ImageOps, NearestTakesThePixelBelowTheMiddle) {
  const Tensor image = counted({2, 4, 1}, at::kLong);
  EXPECT_TRUE(torch::equal(resize(image, 2, 4, {.method = ResizeMethod::kNearest}), image));
  const Tensor half = resize(image, 1, 2, {.method = ResizeMethod::kNearest});
  EXPECT_EQ(half[0][0][0].item<int64_t>(), 5);
  EXPECT_EQ(half[0][1][0].item<int64_t>(), 7);
  const Tensor twice = resize(image, 4, 8, {.method = ResizeMethod::kNearest});
  for (int64_t y = 0; y < 4; ++y) {
    for (int64_t x = 0; x < 8; ++x)
      EXPECT_EQ(twice[y][x][0].item<int64_t>(), image[y / 2][x / 2][0].item<int64_t>());
  }
}

// Every operation does to each image of a batch what it does to the image alone.
TEST(ImageOps, ABatchIsItsImages) {
  const Tensor batch = noise({5, 8, 10, 3});
  const RandomKey key = derive_key(7, {});
  const auto expect_rows = [&](const Tensor& out, const auto& one) {
    ASSERT_EQ(out.size(0), 5);
    for (int64_t i = 0; i < 5; ++i) EXPECT_TRUE(torch::equal(out[i], one(batch[i], i))) << i;
  };
  const auto key_of = [&](int64_t row) { return key.derive(static_cast<uint64_t>(row)); };
  expect_rows(resize(batch, 5, 6), [](const Tensor& x, int64_t) { return resize(x, 5, 6); });
  expect_rows(
      resize(batch, 5, 6, {.method = ResizeMethod::kNearest}),
      [](const Tensor& x, int64_t) { return resize(x, 5, 6, {.method = ResizeMethod::kNearest}); });
  expect_rows(center_crop(batch, 3, 4),
              [](const Tensor& x, int64_t) { return center_crop(x, 3, 4); });
  expect_rows(random_crop(batch, 3, 4, key),
              [&](const Tensor& x, int64_t i) { return random_crop(x, 3, 4, key_of(i)); });
  expect_rows(flip_left_right(batch), [](const Tensor& x, int64_t) { return flip_left_right(x); });
  expect_rows(random_flip_left_right(batch, key),
              [&](const Tensor& x, int64_t i) { return random_flip_left_right(x, key_of(i)); });
  const std::array<double, 3> mean{0.1, 0.2, 0.3};
  const std::array<double, 3> deviation{0.5, 0.25, 2};
  expect_rows(normalize(batch, mean, deviation),
              [&](const Tensor& x, int64_t) { return normalize(x, mean, deviation); });
}

TEST(ImageOps, ABatchWithoutRowsStaysOne) {
  const Tensor none = torch::empty({0, 8, 10, 3});
  const RandomKey key;
  EXPECT_EQ(resize(none, 4, 5).sizes(), (Shape{0, 4, 5, 3}));
  EXPECT_EQ(resize(none, 4, 5, {.method = ResizeMethod::kNearest}).sizes(), (Shape{0, 4, 5, 3}));
  EXPECT_EQ(center_crop(none, 4, 5).sizes(), (Shape{0, 4, 5, 3}));
  EXPECT_EQ(random_crop(none, 4, 5, key).sizes(), (Shape{0, 4, 5, 3}));
  EXPECT_EQ(random_flip_left_right(none, key).sizes(), (Shape{0, 8, 10, 3}));
  EXPECT_EQ(to_float(none.to(at::kByte)).sizes(), (Shape{0, 8, 10, 3}));
}

TEST(ImageOps, CropsAreInsideAndReachEveryPlace) {
  const Tensor image = counted({6, 7, 1});
  EXPECT_TRUE(torch::equal(center_crop(image, 2, 3), image.narrow(0, 2, 2).narrow(1, 2, 3)));
  EXPECT_TRUE(torch::equal(center_crop(image, 3, 2), image.narrow(0, 1, 3).narrow(1, 2, 2)));
  std::set<float> corners;
  for (uint64_t i = 0; i < 400; ++i) {
    const RandomKey key = derive_key(i, {});
    const Tensor part = random_crop(image, 4, 5, key);
    const float corner = part[0][0][0].item<float>();
    const auto top = static_cast<int64_t>(corner) / 7;
    const auto left = static_cast<int64_t>(corner) % 7;
    ASSERT_TRUE(torch::equal(part, image.narrow(0, top, 4).narrow(1, left, 5)));
    ASSERT_TRUE(torch::equal(part, random_crop(image, 4, 5, key)));
    corners.insert(corner);
  }
  EXPECT_EQ(corners.size(), 9u);  // 3 x 3 places
}

TEST(ImageOps, FlipsMirrorAndDrawForEachImage) {
  const Tensor batch = counted({64, 1, 2, 1});
  EXPECT_TRUE(torch::equal(flip_left_right(flip_left_right(batch)), batch));
  EXPECT_EQ(flip_left_right(batch)[3][0][0][0].item<float>(), 7);
  const RandomKey key = derive_key(3, {});
  EXPECT_TRUE(torch::equal(random_flip_left_right(batch, key, 0), batch));
  EXPECT_TRUE(torch::equal(random_flip_left_right(batch, key, 1), flip_left_right(batch)));
  const Tensor out = random_flip_left_right(batch, key, 0.5);
  EXPECT_TRUE(torch::equal(out, random_flip_left_right(batch, key, 0.5)));
  int64_t flipped = 0;
  for (int64_t i = 0; i < 64; ++i) {
    const bool mirrored = out[i][0][0][0].item<float>() == static_cast<float>(2 * i + 1);
    EXPECT_TRUE(torch::equal(out[i], mirrored ? flip_left_right(batch[i]) : batch[i]));
    flipped += mirrored ? 1 : 0;
  }
  // 32 of 64 fair draws, give or take four standard deviations.
  EXPECT_GT(flipped, 16);
  EXPECT_LT(flipped, 48);
  EXPECT_TRUE(torch::equal(batch, counted({64, 1, 2, 1})));
}

TEST(ImageOps, NumbersAreScaled) {
  const Tensor bytes = torch::tensor({0, 51, 255}, at::kByte).view({1, 1, 3});
  const Tensor floats = to_float(bytes);
  EXPECT_FLOAT_EQ(floats[0][0][1].item<float>(), 0.2f);
  EXPECT_FLOAT_EQ(floats[0][0][2].item<float>(), 1.0f);
  const std::array<double, 3> mean{0.5, 0.1, 0};
  const std::array<double, 3> deviation{0.25, 0.1, 2};
  const Tensor normal = normalize(floats, mean, deviation);
  EXPECT_FLOAT_EQ(normal[0][0][0].item<float>(), -2);
  EXPECT_FLOAT_EQ(normal[0][0][1].item<float>(), 1);
  EXPECT_FLOAT_EQ(normal[0][0][2].item<float>(), 0.5f);
}

TEST(ImageOps, ErrorsSayWhatIsWrong) {
  const Tensor image = noise({4, 5, 3});
  const std::array<double, 1> one{1};
  EXPECT_THAT(error_of([&] { resize(image[0], 2, 2); }).message(), HasSubstr("float32[5, 3]"));
  EXPECT_THAT(error_of([&] { resize(image, 0, 2); }).message(), HasSubstr("0 x 2"));
  EXPECT_THAT(error_of([&] { resize(image.to(at::kDouble), 2, 2); }).message(),
              HasSubstr("not supported"));
  EXPECT_THAT(error_of([&] { center_crop(image, 5, 5); }).message(),
              AllOf(HasSubstr("5 x 5"), HasSubstr("float32[4, 5, 3]")));
  EXPECT_THAT(error_of([&] { random_crop(image, 1, 6, {}); }).message(), HasSubstr("1 x 6"));
  EXPECT_THAT(error_of([&] { random_flip_left_right(image, {}, 1.5); }).message(),
              HasSubstr("1.5"));
  EXPECT_THAT(error_of([&] { to_float(image); }).message(), HasSubstr("uint8"));
  EXPECT_THAT(error_of([&] { normalize(image, one, one); }).message(), HasSubstr("1 means"));
  EXPECT_THAT(error_of([&] { normalize(image.to(kUInt8), one, one); }).message(),
              HasSubstr("uint8[4, 5, 3]"));
}

}  // namespace
}  // namespace muster::inline v0_1::data
