#include "muster/layers/merge.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "muster/layers/activation_layers.h"
#include "muster/layers/convolution.h"
#include "muster/layers/internal/test_layers.h"
#include "muster/layers/layer_normalization.h"
#include "muster/layers/sequential.h"
#include "muster/layers/unary_layer.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using testing::Fixture;
using testing::numbers;

struct MergeTest : ::testing::Test {
  Fixture fixture;

  Tensor merged(const Layer& layer, const std::vector<Tensor>& tensors) {
    return layer(LayerInputs{.tensors = tensors}, fixture.context).tensors.at(0);
  }
  std::string refused(const Layer& layer, const std::vector<Tensor>& tensors) {
    return message_of([&] { merged(layer, tensors); });
  }
};

TEST_F(MergeTest, ElementByElement) {
  const Tensor a = numbers({2, 3}), b = numbers({2, 3}, 1.1), c = numbers({2, 3}, 2.3);
  const Tensor sum = merged(Add(), {a, b, c}), product = merged(Multiply(), {a, b, c}),
               mean = merged(Average(), {a, b, c}), most = merged(Maximum(), {a, b, c}),
               least = merged(Minimum(), {a, b, c}), difference = merged(Subtract(), {a, b});
  for (int64_t i = 0; i < 6; ++i) {
    const auto at = [i](const Tensor& t) { return t.view(-1)[i].item<double>(); };
    const double x = at(a), y = at(b), z = at(c);
    EXPECT_NEAR(at(sum), x + y + z, 1e-15);
    EXPECT_NEAR(at(product), x * y * z, 1e-15);
    EXPECT_NEAR(at(mean), (x + y + z) / 3, 1e-15);
    EXPECT_EQ(at(most), std::max({x, y, z}));
    EXPECT_EQ(at(least), std::min({x, y, z}));
    EXPECT_EQ(at(difference), x - y);
  }
  EXPECT_EQ(fixture.context.name_of(Add().impl().identity()), "add_1");
}

TEST_F(MergeTest, SizesOfOneStretchAndAxesAreAddedAfterTheBatch) {
  const Tensor a = numbers({2, 3, 4}), b = numbers({2, 1, 4}), c = numbers({2, 4});
  EXPECT_TRUE(merged(Add(), {a, b}).equal(a + b));
  EXPECT_TRUE(merged(Add(), {a, c}).equal(a + c.view({2, 1, 4})));
  EXPECT_EQ(refused(Add(), {a, numbers({2, 2, 4})}),
            "layer add_2: expected shapes that fit, was given float64[2, 3, 4], float64[2, 2, 4]");
  EXPECT_EQ(refused(Add(), {a, numbers({1, 3, 4})}),
            "layer add_3: expected tensors of one batch and one dtype, was given float64[2, 3, 4], "
            "float64[1, 3, 4]");
  EXPECT_EQ(refused(Add(), {a, a.to(kFloat32)}),
            "layer add_4: expected tensors of one batch and one dtype, was given float64[2, 3, 4], "
            "float32[2, 3, 4]");
  EXPECT_EQ(refused(Add(), {}), "layer add_5: expected one or more tensors, was given 0");
  EXPECT_EQ(refused(Subtract(), {a, a, a}), "layer subtract: expected 2 tensors, was given 3");
}

TEST_F(MergeTest, ConcatenateJoinsAlongItsAxis) {
  const Tensor a = numbers({2, 3, 4}), b = numbers({2, 3, 2}), c = numbers({2, 5, 4});
  const Tensor last = merged(Concatenate(), {a, b});
  EXPECT_TRUE(last.slice(2, 0, 4).equal(a));
  EXPECT_TRUE(last.slice(2, 4).equal(b));
  const Tensor steps = merged(Concatenate(1), {a, c, a});
  EXPECT_EQ(steps.sizes(), (std::vector<int64_t>{2, 11, 4}));
  EXPECT_TRUE(steps.slice(1, 3, 8).equal(c));
  EXPECT_EQ(refused(Concatenate(), {a, c}),
            "layer concatenate_2: expected the same sizes except along axis 2, which must not be "
            "the batch, was given float64[2, 3, 4], float64[2, 5, 4]");
  EXPECT_EQ(refused(Concatenate(3), {a, a}),
            "layer concatenate_3: axis is 3, of the input float64[2, 3, 4]");
  EXPECT_EQ(message_of([] { Concatenate(0); }), "Concatenate: axis is 0");
}

TEST_F(MergeTest, MasksAreJoinedAsTheTensorsAre) {
  const Tensor a = numbers({2, 3, 4}), c = numbers({2, 2, 4});
  const Tensor first = torch::tensor({1, 1, 0, 1, 0, 1}).view({2, 3}).to(at::kBool);
  const Tensor second = torch::tensor({1, 0, 1, 1, 1, 1}).view({2, 3}).to(at::kBool);
  const auto masks = [&](const Layer& layer, const LayerInputs& inputs) {
    return layer(inputs, fixture.context).masks;
  };
  EXPECT_TRUE(masks(Add(), {.tensors = {a, a}, .masks = {first, second}})
                  .at(0)
                  .equal(torch::logical_and(first, second)));
  EXPECT_TRUE(masks(Add(), {.tensors = {a, a}, .masks = {Tensor(), second}}).at(0).equal(second));
  EXPECT_TRUE(masks(Add(), {.tensors = {a, a}}).empty());
  EXPECT_TRUE(masks(Concatenate(), {.tensors = {a, a}, .masks = {first, second}})
                  .at(0)
                  .equal(torch::logical_and(first, second)));
  EXPECT_TRUE(masks(Concatenate(1), {.tensors = {a, c}, .masks = {first, Tensor()}})
                  .at(0)
                  .equal(torch::cat({first, torch::ones({2, 2}, at::kBool)}, 1)));
  EXPECT_TRUE(masks(Dot(2), {.tensors = {a, a}, .masks = {first, second}}).empty());
}

TEST_F(MergeTest, DotSumsAlongItsAxes) {
  const Tensor a = numbers({2, 3, 4}), b = numbers({2, 4, 5}, 1.3);
  const Tensor y = merged(Dot({2, 1}), {a, b});
  ASSERT_EQ(y.sizes(), (std::vector<int64_t>{2, 3, 5}));
  for (int64_t n = 0; n < 2; ++n)
    for (int64_t i = 0; i < 3; ++i)
      for (int64_t j = 0; j < 5; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < 4; ++k) {
          sum += a[n][i][k].item<double>() * b[n][k][j].item<double>();
        }
        EXPECT_NEAR(y[n][i][j].item<double>(), sum, 1e-14);
      }
  const Tensor u = numbers({3, 4}), v = numbers({3, 4}, 0.9);
  const Tensor products = (u * v).sum(1, true);
  EXPECT_TRUE(torch::allclose(merged(Dot(1), {u, v}), products, 1e-13));
  EXPECT_TRUE(torch::allclose(merged(Dot(-1, {.normalize = true}), {u, v}),
                              products / (u.norm(2, {1}, true) * v.norm(2, {1}, true)), 1e-12));
  // A vector against each step of a sequence.
  EXPECT_TRUE(torch::allclose(merged(Dot({1, 2}), {a.select(1, 0), a}),
                              torch::einsum("nk,nik->ni", {a.select(1, 0), a}), 1e-12));
  EXPECT_EQ(refused(Dot(2), {a, b}),
            "layer dot_4: expected the same size in axis 2 of the first and axis 2 of the second, "
            "was given float64[2, 3, 4], float64[2, 4, 5]");
  EXPECT_EQ(refused(Dot(1), {u}), "layer dot_5: expected 2 tensors, was given 1");
  EXPECT_EQ(message_of([] { Dot({1, 0}); }), "Dot: axes is 1, 0");
}

// Adds the output of two convolutions to the images.
class ResidualBlockImpl final : public UnaryLayerImpl {
 public:
  explicit ResidualBlockImpl(int64_t channels)
      : UnaryLayerImpl("residual_block", ""),
        branch_(Sequential({Conv2D(channels, 3, {.padding = Padding::kSame}),
                            GroupNormalization({.groups = 2}), ActivationLayer(activation("swish")),
                            Conv2D(channels, 3, {.padding = Padding::kSame})})) {}

  Tensor call(const Tensor& images, CallContext& context) const override {
    const Tensor branch = branch_(images, context);
    return sum_(LayerInputs{.tensors = {images, branch}}, context).tensors[0];
  }

 private:
  Layer branch_;
  Layer sum_ = Add();
};

TEST_F(MergeTest, LayersOfLayersJoinTheirBranches) {
  const Layer block(std::make_shared<ResidualBlockImpl>(4));
  const Tensor x = numbers({2, 5, 6, 4});
  const Tensor y = block(x, fixture.context);
  EXPECT_EQ(y.sizes(), x.sizes());
  EXPECT_EQ(
      fixture.store.names(),
      (std::vector<std::string>{"conv2d/kernel", "conv2d/bias", "group_normalization/gamma",
                                "group_normalization/beta", "conv2d_1/kernel", "conv2d_1/bias"}));
  fixture.store.find("conv2d_1/kernel")->value().detach().zero_();
  EXPECT_TRUE(block(x, fixture.context).equal(x)) << "the branch gives zeros";
}

}  // namespace
}  // namespace muster::inline v0_1
