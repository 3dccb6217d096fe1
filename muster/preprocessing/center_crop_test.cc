#include "muster/preprocessing/center_crop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/preprocessing/internal/test_calls.h"
#include "muster/preprocessing/resizing.h"

namespace muster::inline v0_1 {
namespace {

using testing::Calls;
using testing::expect_close;
using testing::expect_equal;
using testing::floats;
using ::testing::HasSubstr;

TEST(CenterCropTest, GivesTheMiddle) {
  const Tensor image = torch::arange(20, kFloat32).reshape({4, 5, 1});
  // From 4 x 5 pixels the rows 1 and 2, and the columns 1, 2, 3, or 1 and 2.
  expect_equal(CenterCrop(2, 3)(image).reshape({-1}), floats({6, 7, 8, 11, 12, 13}, {6}));
  expect_equal(CenterCrop(2, 2)(image).reshape({-1}), floats({6, 7, 11, 12}, {4}));
  expect_equal(CenterCrop(4, 5)(image), image);
  const Tensor bytes = torch::arange(40, kUInt8).reshape({2, 4, 5, 1});
  EXPECT_EQ(describe(CenterCrop(1, 2)(bytes)), "float32[2, 1, 2, 1]");
  Calls calls;
  const Layer layer = CenterCrop(2, 3);
  expect_equal(layer(bytes, calls.context)[0], CenterCrop(2, 3)(image));
}

TEST(CenterCropTest, ResizesWhatIsTooSmall) {
  const Tensor image = torch::arange(20, kFloat32).sin().reshape({4, 5, 1});
  expect_close(CenterCrop(6, 2)(image), Resizing(6, 2, {.crop_to_aspect_ratio = true})(image));
}

TEST(CenterCropTest, MistakesAreRefused) {
  EXPECT_THAT(message_of([] { CenterCrop(0, 2); }), HasSubstr("CenterCrop: height is 0"));
  EXPECT_THAT(message_of([] { CenterCrop(2, 0); }), HasSubstr("CenterCrop: width is 0"));
  EXPECT_THAT(message_of([] {
                CenterCrop(2, 2)(torch::ones({2, 2}));
              }),
              HasSubstr("CenterCrop: expected images [height, width, channels]"));
}

}  // namespace
}  // namespace muster::inline v0_1
