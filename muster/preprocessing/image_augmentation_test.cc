#include "muster/preprocessing/image_augmentation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "muster/preprocessing/internal/test_calls.h"
#include "muster/preprocessing/resizing.h"

namespace muster::inline v0_1 {
namespace {

using testing::Calls;
using testing::expect_close;
using testing::expect_equal;
using testing::floats;
using ::testing::HasSubstr;

constexpr RandomKey kKey{5, 0};

Tensor photos(at::IntArrayRef shape) {
  int64_t n = 1;
  for (const int64_t size : shape) n *= size;
  return (torch::sin(torch::arange(n, kFloat64) * 12.9898) * 100).to(kFloat32).reshape(shape);
}

// A row of pixels, all of which an augmentation reaches alike.
Tensor row_of(const ImageAugmentation& augmentation, std::vector<double> row) {
  const auto size = static_cast<int64_t>(row.size());
  return augmentation(floats(std::move(row), {1, size, 1}), kKey).reshape({-1});
}

// --- the formulas ---

TEST(RandomRotationTest, AQuarterTurnIsCounterClockwise) {
  const Tensor image = torch::arange(9, kFloat32).reshape({3, 3, 1});
  for (const Interpolation interpolation : {Interpolation::kNearest, Interpolation::kBilinear}) {
    const Tensor turned =
        RandomRotation({0.25, 0.25}, {.interpolation = interpolation})(image, kKey);
    expect_close(turned.reshape({3, 3}), floats({2, 5, 8, 1, 4, 7, 0, 3, 6}, {3, 3}), 1e-5);
  }
  // Colours stay together.
  const Tensor colours = photos({5, 5, 3});
  expect_close(RandomRotation({0.5, 0.5})(colours, kKey), colours.flip({0, 1}), 1e-4);
}

// Zooming out by 100 % looks at -1.5, 0.5, 2.5, 4.5 of the pixels 0, 1, 2, 3.
TEST(RandomZoomTest, FillModesAreTensorFlows) {
  const auto zoomed = [](FillMode fill, Interpolation interpolation, double value = 0) {
    return row_of(
        RandomZoom({1, 1},
                   {.fill_mode = fill, .interpolation = interpolation, .fill_value = value}),
        {10, 11, 12, 13});
  };
  const auto bilinear = Interpolation::kBilinear, nearest = Interpolation::kNearest;
  expect_close(zoomed(FillMode::kReflect, bilinear), floats({10.5, 10.5, 12.5, 12.5}, {4}));
  expect_close(zoomed(FillMode::kNearest, bilinear), floats({10, 10.5, 12.5, 13}, {4}));
  expect_close(zoomed(FillMode::kConstant, bilinear, -7), floats({-7, 10.5, 12.5, -7}, {4}));
  expect_close(zoomed(FillMode::kWrap, bilinear), floats({12.5, 10.5, 12.5, 10.5}, {4}));
  // A half is rounded away from 0.
  expect_equal(zoomed(FillMode::kReflect, nearest), floats({11, 11, 13, 13}, {4}));
  expect_equal(zoomed(FillMode::kConstant, nearest, -7), floats({-7, 11, 13, -7}, {4}));
}

// Half a pixel beyond the edge an image equals the edge; a constant is mixed in at once.
TEST(RandomZoomTest, BetweenTheEdgeAndBeyond) {
  // 1.2 times as much: -0.3, 0.9, 2.1, 3.3.
  const auto zoomed = [](FillMode fill) {
    return row_of(RandomZoom({0.2, 0.2}, {.fill_mode = fill, .fill_value = 100}), {10, 11, 12, 13});
  };
  expect_close(zoomed(FillMode::kReflect), floats({10, 10.9, 12.1, 13}, {4}), 1e-5);
  expect_close(zoomed(FillMode::kConstant), floats({37, 10.9, 12.1, 39.1}, {4}), 1e-5);
}

// Reflection far out: bilinear interpolation of the image that is mirrored again and again.
TEST(RandomZoomTest, ReflectsAsOftenAsIsNeeded) {
  const std::vector<double> pixels{3, -1, 4};
  const auto extended = [&](int64_t i) {
    while (i < 0 || i >= 3) i = i < 0 ? -1 - i : 5 - i;
    return pixels[static_cast<size_t>(i)];
  };
  // A width factor has no upper limit.
  const RandomZoomOptions far{.width_factor = RandomFactor(7.3, 7.3)};
  const Tensor row = row_of(RandomZoom({0, 0}, far), pixels);
  for (int64_t x = 0; x < 3; ++x) {
    const double from = 8.3 * static_cast<double>(x) - 7.3;
    const double left = std::floor(from), part = from - left;
    const auto i = static_cast<int64_t>(left);
    EXPECT_NEAR(row[x].item<double>(), extended(i) * (1 - part) + extended(i + 1) * part, 1e-5);
  }
}

TEST(RandomZoomTest, AxesAreDrawnTogetherOrApart) {
  const Tensor image = photos({6, 6, 1});
  // The same factor for both: an image symmetric about the diagonal stays so.
  const Tensor symmetric = image + image.transpose(0, 1);
  const Tensor zoomed = RandomZoom(0.4)(symmetric, kKey);
  EXPECT_FALSE(zoomed.equal(symmetric));
  expect_close(zoomed, zoomed.transpose(0, 1), 1e-4);
  // A width factor of 0 leaves rows that are alike alike.
  const Tensor columns = image.slice(1, 0, 1).expand({6, 6, 1});
  const Tensor rows = RandomZoom({0.3, 0.4}, {.width_factor = RandomFactor(0)})(columns, kKey);
  expect_close(rows, rows.slice(1, 0, 1).expand({6, 6, 1}));
}

// Positive factors move down and to the right; 0.25 of four pixels is one.
TEST(RandomTranslationTest, MovesByPartsOfTheSize) {
  const auto moved = [](double down, double right, FillMode fill) {
    const Tensor image = torch::arange(8, kFloat32).reshape({2, 4, 1});
    return RandomTranslation({down, down}, {right, right}, {.fill_mode = fill, .fill_value = -1})(
               image, kKey)
        .reshape({-1});
  };
  expect_close(moved(0, 0.25, FillMode::kConstant), floats({-1, 0, 1, 2, -1, 4, 5, 6}, {8}));
  expect_close(moved(0, -0.5, FillMode::kConstant), floats({2, 3, -1, -1, 6, 7, -1, -1}, {8}));
  expect_close(moved(0.5, 0, FillMode::kNearest), floats({0, 1, 2, 3, 0, 1, 2, 3}, {8}));
  // Half a pixel lies between two.
  expect_close(moved(0, 0.125, FillMode::kReflect),
               floats({0, .5, 1.5, 2.5, 4, 4.5, 5.5, 6.5}, {8}));
  // Height and width are drawn apart, in this order.
  Random random(kKey);
  const double down = 0.4 * random.uniform() - 0.2, right = 0.6 * random.uniform() - 0.3;
  const Tensor image = photos({6, 6, 1});
  expect_equal(RandomTranslation(0.2, 0.3)(image, kKey),
               RandomTranslation({down, down}, {right, right})(image, kKey));
}

TEST(RandomBrightnessTest, AddsAPartOfTheRangeAndClips) {
  const Tensor image = floats({0, 100, 200, 250}, {1, 4, 1});
  expect_close(RandomBrightness({0.1, 0.1})(image, kKey).reshape({-1}),
               floats({25.5, 125.5, 225.5, 255}, {4}));
  expect_close(RandomBrightness({-0.5, -0.5})(image, kKey).reshape({-1}),
               floats({0, 0, 72.5, 122.5}, {4}));
  Random random(kKey);
  const double added = (0.6 * random.uniform() - 0.3) * 2;
  expect_close(RandomBrightness(0.3, {.value_range = {-1, 1}})(image / 1000, kKey),
               (image / 1000 + added).clamp(-1, 1));
}

TEST(RandomContrastTest, SpreadsAboutTheMeanOfEachChannel) {
  const Tensor image = floats({1, 10, 3, 30}, {1, 2, 2});
  expect_close(RandomContrast(0, 0)(image, kKey), image);
  expect_close(RandomContrast(1, 0)(image, RandomKey{1, 1}).mean(at::IntArrayRef({0, 1})),
               floats({2, 20}, {2}));
  Random random(kKey);
  const double contrast = 0.5 + 1.25 * random.uniform();
  expect_close(
      RandomContrast(0.5, 0.75)(image, kKey),
      floats({2 - contrast, 20 - 10 * contrast, 2 + contrast, 20 + 10 * contrast}, {1, 2, 2}));
}

TEST(RandomCropTest, CutsOutPlacesThatAreEquallyLikely) {
  const Tensor image = torch::arange(12, kFloat32).reshape({3, 4, 1});
  std::vector<int> counts(12);
  for (uint64_t i = 0; i < 6000; ++i) {
    const Tensor part = RandomCrop(2, 2)(image, RandomKey{i, 0});
    ASSERT_EQ(part.sizes(), at::IntArrayRef({2, 2, 1}));
    const float first = part[0][0][0].item<float>();
    ASSERT_EQ(part[1][1][0].item<float>(), first + 5);
    ++counts[static_cast<size_t>(first)];
  }
  // Two rows and three columns: a thousand each, within five deviations.
  for (const size_t place : {0, 1, 2, 4, 5, 6}) EXPECT_NEAR(counts[place], 1000, 145);
  // An image that is too small is resized.
  expect_close(RandomCrop(6, 2)(image, kKey),
               Resizing(6, 2, {.crop_to_aspect_ratio = true})(image));
}

TEST(RandomFlipTest, EachDirectionIsFlippedByHalf) {
  const Tensor image = torch::arange(4, kFloat32).reshape({2, 2, 1});
  const auto counts = [&](FlipMode mode) {
    std::vector<int> all(4);  // the pixel in the first corner identifies the crop
    for (uint64_t i = 0; i < 2000; ++i)
      ++all[RandomFlip(mode)(image, RandomKey{i, 7})[0][0][0].item<int64_t>()];
    return all;
  };
  const auto half = [](int n) {
    return ::testing::AllOf(::testing::Gt(n - 112), ::testing::Lt(n + 112));
  };
  EXPECT_THAT(counts(FlipMode::kHorizontal), ::testing::ElementsAre(half(1000), half(1000), 0, 0));
  EXPECT_THAT(counts(FlipMode::kVertical), ::testing::ElementsAre(half(1000), 0, half(1000), 0));
  EXPECT_THAT(counts(FlipMode::kHorizontalAndVertical),
              ::testing::ElementsAre(half(500), half(500), half(500), half(500)));
}

// --- all of them ---

std::vector<ImageAugmentation> all_augmentations() {
  return {RandomFlip(),
          RandomRotation(0.3),
          RandomZoom(0.5),
          RandomTranslation(0.2, 0.3),
          RandomCrop(3, 4),
          RandomContrast(0.5),
          RandomBrightness(0.2, {.value_range = {-100, 100}})};
}

TEST(ImageAugmentationTest, RowsDrawForThemselves) {
  const Tensor same = photos({1, 5, 6, 3}).expand({8, 5, 6, 3});
  for (const ImageAugmentation& augmentation : all_augmentations()) {
    const Tensor out = augmentation(same, kKey);
    EXPECT_EQ(out.size(0), 8);
    EXPECT_TRUE(out.equal(augmentation(same, kKey)));
    EXPECT_FALSE(out.equal(augmentation(same, RandomKey{6, 0})));
    int other = 0;
    for (int64_t i = 0; i < 8; ++i) {
      EXPECT_TRUE(out[i].equal(augmentation(same[i], kKey.derive(static_cast<uint64_t>(i)))));
      other += !out[i].equal(out[0]);
    }
    EXPECT_GE(other, 3);
    EXPECT_EQ(augmentation(same.slice(0, 0, 0), kKey).size(0), 0);
    EXPECT_EQ(augmentation(same.abs().to(kUInt8), kKey).scalar_type(), kFloat32);
  }
}

TEST(ImageAugmentationTest, OutsideOfTrainingNothingHappens) {
  const Tensor images = photos({4, 5, 6, 3});
  for (const ImageAugmentation& augmentation : all_augmentations()) {
    Calls calls;
    const Layer layer = augmentation;
    const Tensor out = layer(images, calls.context);
    const bool crops = out.size(1) == 3;
    expect_equal(out, crops ? Resizing(3, 4, {.crop_to_aspect_ratio = true})(images) : images);
    calls.context.begin_step(/*training=*/true, 0, 0);
    EXPECT_EQ(layer(images, calls.context).sizes(), out.sizes());
  }
}

// Invariant: however the rows of a step are divided among replicas, each is changed in the same
// way. The replicas run here one after another; their sum would be known.
TEST(ImageAugmentationTest, AnyNumberOfReplicasGivesTheSameBits) {
  const Tensor images = photos({7, 5, 6, 3});
  for (const ImageAugmentation& augmentation : all_augmentations()) {
    const Layer layer = augmentation;
    Calls alone;
    alone.context.begin_step(true, 3, 0);
    const Tensor whole = layer(images, alone.context);
    EXPECT_FALSE(whole.equal(layer(images, alone.context)));  // the second call of the step
    alone.context.begin_step(true, 4, 0);
    EXPECT_FALSE(whole.equal(layer(images, alone.context)));
    for (const std::vector<int64_t>& rows :
         std::vector<std::vector<int64_t>>{{7}, {4, 3}, {3, 3, 1}, {7, 0, 0}}) {
      const Tensor counts = torch::tensor(rows, kInt64);
      std::vector<Tensor> parts;
      int64_t begin = 0;
      for (size_t r = 0; r < rows.size(); ++r) {
        Calls calls;
        calls.context.set_replicas(static_cast<int64_t>(rows.size()), [&](const Tensor& mine) {
          Tensor expected = torch::zeros_like(counts);
          expected[static_cast<int64_t>(r)] = rows[r];
          expect_equal(mine, expected);
          return counts;
        });
        calls.context.begin_step(true, 3, static_cast<int64_t>(r));
        parts.push_back(layer(images.slice(0, begin, begin + rows[r]), calls.context));
        begin += rows[r];
      }
      expect_equal(torch::cat(parts), whole);
    }
  }
}

// Each worker reads its part of every batch; the images keep their places in the source.
TEST(ImageAugmentationTest, AnyNumberOfWorkersReadsTheSameBits) {
  const Tensor images = photos({13, 5, 6, 1});
  const auto read = [&](int64_t workers) {
    std::vector<std::unique_ptr<Iterator>> iterators;
    for (int64_t w = 0; w < workers; ++w) {
      iterators.push_back(
          Dataset::from_tensor_slices(images)
              .shuffle(13)
              .repeat(2)
              .map([flip = RandomFlip(), turn = RandomRotation(0.1)](const Element& image,
                                                                     RandomKey key) {
                return turn(flip(image.value().tensor(), key.derive(0)), key.derive(1));
              })
              .global_batch(6)
              .iterator({.seed = 9, .sharding = {.num_replicas = workers, .replica = w}}));
    }
    std::vector<Tensor> rows;
    while (const auto first = iterators[0]->next()) {
      rows.push_back(first->value().tensor());
      for (int64_t w = 1; w < workers; ++w)
        rows.push_back(iterators[static_cast<size_t>(w)]->next().value().value().tensor());
    }
    return torch::cat(rows);
  };
  const Tensor alone = read(1);
  EXPECT_EQ(alone.size(0), 26);
  expect_equal(read(2), alone);
  expect_equal(read(3), alone);
}

TEST(ImageAugmentationTest, GradientsFlow) {
  const Tensor images = photos({2, 4, 4, 2});
  for (const ImageAugmentation& augmentation : all_augmentations()) {
    Tensor x = images.clone().requires_grad_();
    augmentation(x, kKey).sum().backward();
    EXPECT_TRUE(x.grad().defined());
    EXPECT_GT(x.grad().abs().sum().item<double>(), 0);
  }
}

TEST(ImageAugmentationTest, MistakesAreRefused) {
  EXPECT_THAT(message_of([] { RandomRotation(-0.1); }),
              HasSubstr("RandomRotation: factor is [0.1, -0.1]"));
  EXPECT_THAT(message_of([] { RandomRotation(0.1, {.fill_value = std::nan("")}); }),
              HasSubstr("fill_value is nan"));
  EXPECT_THAT(message_of([] { RandomRotation(0.1, {.interpolation = Interpolation::kArea}); }),
              HasSubstr("RandomRotation: interpolation is kArea"));
  EXPECT_THAT(message_of([] { RandomTranslation(0.1, 1.5); }),
              HasSubstr("RandomTranslation: width_factor is [-1.5, 1.5]"));
  EXPECT_THAT(message_of([] { RandomBrightness(2); }),
              HasSubstr("RandomBrightness: factor is [-2, 2]"));
  EXPECT_THAT(message_of([] {
                RandomBrightness(0.5, {.value_range = {1, 1}});
              }),
              HasSubstr("RandomBrightness: value_range is [1, 1]"));
  EXPECT_THAT(message_of([] { RandomZoom(1.5); }), HasSubstr("height_factor is [-1.5, 1.5]"));
  EXPECT_THAT(message_of([] { RandomZoom(0.5, {.width_factor = RandomFactor(-2, 0)}); }),
              HasSubstr("width_factor is [-2, 0]"));
  EXPECT_THAT(message_of([] { RandomCrop(0, 3); }), HasSubstr("RandomCrop: height is 0"));
  EXPECT_THAT(message_of([] { RandomContrast(1.2); }), HasSubstr("factor is [1.2, 1.2]"));
  EXPECT_THAT(message_of([] { RandomContrast(0.2, -1); }), HasSubstr("factor is [0.2, -1]"));
  EXPECT_THAT(message_of([] {
                RandomFlip()(torch::ones({2, 2}), kKey);
              }),
              HasSubstr("RandomFlip: expected images"));
  Calls calls;
  const Layer layer = RandomFlip(FlipMode::kVertical, "flip");
  EXPECT_THAT(message_of([&] {
                layer(torch::ones({2, 2, 1}), calls.context);
              }),
              HasSubstr("layer flip: expected images [batch, height, width, channels]"));
}

}  // namespace
}  // namespace muster::inline v0_1
