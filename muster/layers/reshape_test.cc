#include "muster/layers/reshape.h"

#include <gtest/gtest.h>

#include <vector>

#include "muster/layers/internal/test_layers.h"
#include "muster/layers/lambda.h"
#include "muster/layers/rescaling.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using testing::Fixture;
using testing::numbers;

TEST(Reshape, KeepsTheOrderOfMemory) {
  Fixture fixture;
  const Tensor x = numbers({2, 12});
  EXPECT_TRUE(Reshape({3, 4})(x, fixture.context).equal(x.view({2, 3, 4})));
  EXPECT_TRUE(Reshape({-1, 2, 2})(x, fixture.context).equal(x.view({2, 3, 2, 2})));
  EXPECT_EQ(Reshape({-1, 4})(torch::zeros({0, 12}), fixture.context).sizes(),
            (std::vector<int64_t>{0, 3, 4}));
  EXPECT_EQ(Reshape({})(numbers({2, 1}), fixture.context).sizes(), (std::vector<int64_t>{2}));
  EXPECT_EQ(message_of([&] {
              Reshape({5, -1}, "square")(x, fixture.context);
            }),
            "layer square: expected [batch, ...] with the elements of target_shape [5, -1], was "
            "given float64[2, 12]");
  EXPECT_EQ(message_of([&] {
              Reshape({3, 5})(x, fixture.context);
            }),
            "layer reshape_4: expected [batch, ...] with the elements of target_shape [3, 5], was "
            "given float64[2, 12]");
  EXPECT_EQ(message_of([] { Reshape({-1, 2, -1}); }), "Reshape: target_shape is [-1, 2, -1]");
  EXPECT_EQ(message_of([] { Reshape({-2}); }), "Reshape: target_shape is [-2]");
}

TEST(Permute, CountsAxesFromOne) {
  Fixture fixture;
  const Tensor x = numbers({2, 3, 4, 5});
  const Tensor y = Permute({3, 1, 2})(x, fixture.context);
  ASSERT_EQ(y.sizes(), (std::vector<int64_t>{2, 5, 3, 4}));
  EXPECT_EQ(y[1][4][2][3].item<double>(), x[1][2][3][4].item<double>());
  EXPECT_EQ(message_of([] { Permute({2, 3}); }), "Permute: dims is [2, 3]");
  EXPECT_EQ(message_of([&] {
              Permute({2, 1})(x, fixture.context);
            }),
            "layer permute_1: expected 3 axes, was given float64[2, 3, 4, 5]");
}

TEST(RepeatVector, PutsCopiesOneAfterAnother) {
  Fixture fixture;
  const Tensor x = numbers({2, 3});
  EXPECT_TRUE(RepeatVector(4)(x, fixture.context).equal(x.view({2, 1, 3}).repeat({1, 4, 1})));
  EXPECT_EQ(message_of([] { RepeatVector(0); }), "RepeatVector: n is 0");
  EXPECT_EQ(message_of([&] {
              RepeatVector(2)(numbers({2, 3, 4}), fixture.context);
            }),
            "layer repeat_vector_1: expected [batch, features], was given float64[2, 3, 4]");
}

TEST(Lambda, CallsItsFunction) {
  Fixture fixture;
  const Tensor x = numbers({2, 3});
  const Layer twice = Lambda([](const Tensor& input) { return input * 2; });
  EXPECT_TRUE(twice(x, fixture.context).equal(x * 2));
  EXPECT_EQ(message_of([] { Lambda(nullptr); }), "Lambda: function is empty");
  EXPECT_EQ(message_of([&] {
              Lambda([](const Tensor&) { return Tensor(); }, "none")(x, fixture.context);
            }),
            "layer none: its function gave an undefined tensor, for float64[2, 3]");
}

TEST(Rescaling, BringsBytesToOne) {
  Fixture fixture;
  const Tensor bytes = torch::tensor({0, 51, 255}, at::kByte);
  const Tensor y = Rescaling(1.0 / 127.5, -1)(bytes, fixture.context);
  EXPECT_EQ(y.scalar_type(), kFloat32);
  EXPECT_TRUE(torch::allclose(y, torch::tensor({-1.0f, -0.6f, 1.0f})));
  EXPECT_EQ(Rescaling(2)(numbers({2}), fixture.context).scalar_type(), kFloat64);
  EXPECT_EQ(message_of([] { Rescaling(std::nan("")); }), "Rescaling: scale is nan");
}

}  // namespace
}  // namespace muster::inline v0_1
