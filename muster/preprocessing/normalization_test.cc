#include "muster/preprocessing/normalization.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "muster/layers/reshape.h"
#include "muster/layers/sequential.h"
#include "muster/preprocessing/internal/test_calls.h"

namespace muster::inline v0_1 {
namespace {

using testing::Calls;
using ::testing::ElementsAreArray;
using testing::expect_close;
using testing::floats;
using ::testing::HasSubstr;

// This test and the next begin with the examples of Keras's documentation.
TEST(NormalizationTest, GivenMeanAndVarianceAreUsed) {
  const Tensor x = floats({1, 2, 3}, {3, 1});
  expect_close(Normalization({.mean = {3}, .variance = {2}})(x),
               floats({-1.4142135, -0.70710677, 0}, {3, 1}));
  const Normalization two({.mean = {1, 10}, .variance = {4, 0}});
  // A variance of 0 divides by 1e-7.
  expect_close(two(floats({5, 10.5}, {1, 2})), floats({2, 5e6}, {1, 2}));
  // One number is for all, whatever the axis.
  expect_close(Normalization({.axis = {}, .mean = {1}, .variance = {4}})(floats({5, 3}, {1, 2})),
               floats({2, 1}, {1, 2}));
}

std::vector<::testing::Matcher<double>> near(const std::vector<double>& values) {
  std::vector<::testing::Matcher<double>> all;
  for (const double value : values) all.push_back(::testing::DoubleNear(value, 1e-9));
  return all;
}

TEST(NormalizationTest, AdaptsToABatch) {
  const Normalization one = Normalization({.axis = {}}).adapt(floats({1, 2, 3, 4, 5}, {5}));
  expect_close(one(floats({1, 2, 3}, {3})), floats({-1.4142135, -0.70710677, 0}, {3}));
  const Normalization columns =
      Normalization().adapt(floats({0, 7, 4, 2, 9, 6, 0, 7, 4, 2, 9, 6}, {4, 3}));
  EXPECT_THAT(columns.mean(), ElementsAreArray(near({1, 8, 5})));
  EXPECT_THAT(columns.variance(), ElementsAreArray(near({1, 1, 1})));
  expect_close(columns(floats({0, 7, 4}, {1, 3})), floats({-1, -1, -1}, {1, 3}));
}

TEST(NormalizationTest, KeepsTheGivenAxes) {
  // 2 images of 2 x 2 pixels with 2 channels: channel 1 is channel 0 plus 100.
  Tensor images = torch::arange(8, kFloat32).reshape({2, 2, 2, 1});
  images = torch::cat({images, images + 100}, 3);
  const Normalization channels = Normalization().adapt(images);
  EXPECT_THAT(channels.mean(), ElementsAreArray(near({3.5, 103.5})));
  EXPECT_THAT(channels.variance(), ElementsAreArray(near({5.25, 5.25})));  // (8^2 - 1) / 12
  // Rows and channels keep theirs: row 0 has 0, 1, 4, 5.
  const Normalization rows = Normalization({.axis = {1, -1}}).adapt(images);
  EXPECT_THAT(rows.mean(), ElementsAreArray(near({2.5, 102.5, 4.5, 104.5})));
  const Tensor y = rows(images);
  expect_close(y[0][1][0][0], torch::tensor((2 - 4.5) / std::sqrt(4.25)));
  expect_close(y.mean(at::IntArrayRef({0, 2})), torch::zeros({2, 2}), 1e-5);
  // One element of the pipeline has no batch axis, but its channels are still the last axis.
  expect_close(channels(images[1]), channels(images)[1]);
}

TEST(NormalizationTest, InvertGoesBack) {
  const Tensor x = floats({1, 5, 2, 7, 9, 1}, {3, 2});
  const Normalization there = Normalization().adapt(x);
  const Normalization back = Normalization({.invert = true}).adapt(x);
  expect_close(back(there(x)), x, 1e-5);
}

// Invariant: the division of a data set into batches leaves no trace, not even in the last bit.
TEST(NormalizationTest, AnySplitIntoBatchesGivesTheSameBits) {
  const Tensor all =
      torch::sin(torch::arange(1200, kFloat64) * 12.9898).reshape({200, 2, 3}) * 5 + 1e4;
  const Dataset rows = Dataset::from_tensor_slices(all);
  const Normalization whole = Normalization().adapt(all);
  for (const int64_t batch : {1, 3, 7, 64, 199}) {
    const Normalization cut = Normalization().adapt(rows.batch(batch));
    EXPECT_EQ(cut.mean(), whole.mean()) << batch;
    EXPECT_EQ(cut.variance(), whole.variance()) << batch;
  }
  const Normalization uneven = Normalization().adapt(rows.batch(7).rebatch({1, 0, 50, 13}));
  EXPECT_EQ(uneven.variance(), whole.variance());
  // Two passes give the same to the precision of float64, though the mean is thousands of
  // deviations off 0.
  const Tensor flat = all.reshape({-1, 3});
  const Tensor mean = flat.mean(0);
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(whole.mean()[i], mean[i].item<double>(), 1e-9);
    EXPECT_NEAR(whole.variance()[i], (flat - mean).square().mean(0)[i].item<double>(), 1e-9);
  }
}

TEST(NormalizationTest, IsALayer) {
  Calls calls;
  const Normalization normalize({.mean = {2}, .variance = {4}});
  const Layer model = Sequential({normalize, Flatten()});
  expect_close(model(torch::full({3, 2, 2}, 6, kInt32), calls.context), torch::full({3, 4}, 2.0));
  const Layer layer = normalize;
  EXPECT_EQ(calls.context.name_of(layer.impl().identity()), "normalization");
  Tensor x = floats({1, 2}, {1, 2}).requires_grad_();
  layer(x, calls.context).sum().backward();
  expect_close(x.grad(), floats({0.5, 0.5}, {1, 2}));
}

TEST(NormalizationTest, MistakesAreRefused) {
  const auto made = [](NormalizationOptions options) {
    return message_of([&] { Normalization{options}; });
  };
  EXPECT_THAT(made({.axis = {0}}), HasSubstr("axis is 0"));
  EXPECT_THAT(made({.mean = {1}}), HasSubstr("1 numbers are given for mean, 0 for variance"));
  EXPECT_THAT(made({.mean = {1, 2}, .variance = {1}}), HasSubstr("2 numbers are given for mean"));
  EXPECT_THAT(made({.mean = {1}, .variance = {-1}}), HasSubstr("variance has -1"));
  const Tensor x = floats({1, 2, 3, 4}, {2, 2});
  EXPECT_THAT(message_of([&] { Normalization()(x); }), HasSubstr("no mean and no variance yet"));
  EXPECT_THAT(message_of([&] { (void)Normalization({.axis = {4}}).adapt(x); }),
              HasSubstr("axis is 4, of the input float64[2, 2]"));
  EXPECT_THAT(message_of([&] {
                Normalization().adapt(x)(torch::ones({2, 3}));
              }),
              HasSubstr("float32[2, 3]"));
  EXPECT_THAT(message_of([&] { (void)Normalization({.mean = {1}, .variance = {1}}).adapt(x); }),
              HasSubstr("already"));
  const Tensor hole = floats({1, std::numeric_limits<double>::quiet_NaN()}, {2, 1});
  EXPECT_THAT(
      message_of([&] { (void)Normalization().adapt(Dataset::from_tensor_slices(hole).batch(1)); }),
      HasSubstr("Normalization.adapt: element 1, float32[1, 1], has a number that is not"));
  EXPECT_THAT(message_of([&] {
                (void)Normalization().adapt(Dataset::from_tensors(Element::tuple({x, x})));
              }),
              HasSubstr("not one value"));
  EXPECT_THAT(message_of([&] { (void)Normalization().adapt(Dataset::from_tensors(x).repeat()); }),
              HasSubstr("no end"));
  EXPECT_THAT(message_of([&] { (void)Normalization().adapt(x.slice(0, 0, 0)); }),
              HasSubstr("no rows"));
}

}  // namespace
}  // namespace muster::inline v0_1
