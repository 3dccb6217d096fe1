#include "muster/preprocessing/resizing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/preprocessing/internal/test_calls.h"

namespace muster::inline v0_1 {
namespace {

using testing::Calls;
using testing::expect_close;
using testing::expect_equal;
using testing::floats;
using ::testing::HasSubstr;

// A row of pixels, brought to another width.
Tensor resized(std::vector<double> row, int64_t width, ResizingOptions options = {}) {
  const auto size = static_cast<int64_t>(row.size());
  return Resizing(1, width, options)(floats(std::move(row), {1, size, 1})).reshape({-1});
}

// Pixel i of the new row has its middle at (i + 1/2) * old width / new width - 1/2.
TEST(ResizingTest, BilinearWeighsByTheMiddlesOfPixels) {
  expect_close(resized({0, 1, 2, 3}, 2), floats({0.5, 2.5}, {2}));
  expect_close(resized({0, 1}, 4), floats({0, .25, .75, 1}, {4}));
  // Only the neighbours count, however much it shrinks: 3.5 is between 3 and 4.
  expect_close(resized({9, 9, 9, 0, 1, 9, 9, 9}, 1), floats({0.5}, {1}));
  const Tensor square = floats({0, 10, 20, 30}, {2, 2, 1});
  expect_close(Resizing(1, 1)(square), floats({15}, {1, 1, 1}));
  expect_close(Resizing(1, 2)(square).reshape({-1}), floats({10, 20}, {2}));
}

TEST(ResizingTest, NearestTakesThePixelBelowTheMiddle) {
  const ResizingOptions nearest{.interpolation = Interpolation::kNearest};
  expect_equal(resized({0, 1, 2, 3}, 2, nearest), floats({1, 3}, {2}));
  expect_equal(resized({0, 1, 2, 3, 4}, 3, nearest), floats({0, 2, 4}, {3}));
  expect_equal(resized({0, 1}, 5, nearest), floats({0, 0, 1, 1, 1}, {5}));
}

// resize_images_test.cc has the numbers.
TEST(ResizingTest, TakesEveryInterpolation) {
  const Tensor image = torch::arange(60, kFloat32).sin().reshape({5, 6, 2});
  for (const auto each :
       {Interpolation::kBicubic, Interpolation::kArea, Interpolation::kLanczos3,
        Interpolation::kLanczos5, Interpolation::kGaussian, Interpolation::kMitchellCubic}) {
    expect_close(Resizing(3, 8, {.interpolation = each})(image),
                 resize_images(image.unsqueeze(0), 3, 8, each)[0]);
    const ResizingOptions cropped{.interpolation = each, .crop_to_aspect_ratio = true};
    expect_close(Resizing(4, 4, cropped)(image),
                 resize_images(image.slice(1, 0, 5).unsqueeze(0), 4, 4, each)[0]);
  }
}

TEST(ResizingTest, TheAspectRatioMayStay) {
  const ResizingOptions cropped{.crop_to_aspect_ratio = true};
  // From 2 x 4 pixels the 2 x 2 in the middle become 1 x 1 and 2 x 2.
  const Tensor wide = torch::arange(8, kFloat32).reshape({2, 4, 1});
  expect_equal(Resizing(2, 2, cropped)(wide).reshape({-1}), floats({1, 2, 5, 6}, {4}));
  expect_close(Resizing(1, 1, cropped)(wide).reshape({-1}), floats({3.5}, {1}));
  // From 4 x 2 the two rows in the middle.
  expect_equal(Resizing(2, 2, cropped)(wide.reshape({4, 2, 1})).reshape({-1}),
               floats({2, 3, 4, 5}, {4}));
  // Whatever the ratio, a row stays.
  expect_equal(Resizing(1, 9, cropped)(torch::ones({2, 2, 1})), torch::ones({1, 9, 1}));
}

TEST(ResizingTest, TakesBytesAndBatchesAndIsALayer) {
  const Tensor bytes = torch::arange(24, kUInt8).reshape({2, 2, 2, 3});
  const Tensor out = Resizing(4, 3)(bytes);
  EXPECT_EQ(describe(out), "float32[2, 4, 3, 3]");
  expect_close(out[1], Resizing(4, 3)(bytes[1].to(kFloat32)));
  EXPECT_EQ(describe(Resizing(4, 3)(bytes.slice(0, 0, 0))), "float32[0, 4, 3, 3]");
  EXPECT_EQ(describe(Resizing(4, 3)(bytes.to(kBFloat16))), "bfloat16[2, 4, 3, 3]");
  Calls calls;
  const Layer layer = Resizing(4, 3);
  expect_equal(layer(bytes, calls.context), out);
  const Tensor x = bytes.to(kFloat32).requires_grad_();
  layer(x, calls.context).sum().backward();
  expect_close(x.grad().sum(), torch::tensor(72.0f));  // 2 images, 12 pixels, 3 channels
}

TEST(ResizingTest, MistakesAreRefused) {
  EXPECT_THAT(message_of([] { Resizing(0, 2); }), HasSubstr("Resizing: height is 0"));
  EXPECT_THAT(message_of([] { Resizing(2, -1); }), HasSubstr("Resizing: width is -1"));
  EXPECT_THAT(message_of([] {
                Resizing(2, 2)(torch::ones({2, 2}));
              }),
              HasSubstr("Resizing: expected images [height, width, channels]"));
  EXPECT_THAT(message_of([] {
                Resizing(2, 2)(torch::ones({2, 0, 1}));
              }),
              HasSubstr("float32[2, 0, 1] cannot become 2 x 2 pixels"));
}

}  // namespace
}  // namespace muster::inline v0_1
