#include "muster/layers/internal/matrix_product.h"

#include <gtest/gtest.h>

#include "muster/tensor/gradient_destination.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

struct Case {
  Tensor input = torch::randn({5, 7}).requires_grad_();
  Tensor kernel = torch::randn({7, 3}).requires_grad_();
  Tensor bias = torch::randn({3}).requires_grad_();
};

// The destination of one parameter, as often as it is asked for.
struct OnePlace final : GradientDestinations {
  OnePlace(Tensor parameter, Tensor place)
      : parameter(std::move(parameter)), place(std::move(place)) {}
  Tensor take(const Tensor& asked) override {
    if (!asked.is_same(parameter) || taken) return {};
    taken = true;
    return place.detach();
  }
  Tensor parameter, place;
  bool taken = false;
};

TEST(MatrixProduct, IsAddmmWithItsGradients) {
  torch::manual_seed(1);
  for (const bool with_bias : {true, false}) {
    const Case c;
    const Tensor bias = with_bias ? c.bias : Tensor();
    const Tensor ours = matrix_product(c.input, c.kernel, bias);
    const Tensor theirs =
        with_bias ? at::addmm(c.bias, c.input, c.kernel) : at::mm(c.input, c.kernel);
    EXPECT_TRUE(ours.equal(theirs));
    std::vector<Tensor> inputs{c.input, c.kernel};
    if (with_bias) inputs.push_back(c.bias);
    const Tensor weight = torch::randn({5, 3});
    const auto got = torch::autograd::grad({(ours * weight).sum()}, inputs);
    const auto wanted = torch::autograd::grad({(theirs * weight).sum()}, inputs);
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(torch::allclose(got[i], wanted[i], 1e-6, 1e-6)) << i;
    }
  }
}

TEST(MatrixProduct, WritesTheGradientWhereItIsWanted) {
  torch::manual_seed(2);
  const Case c;
  const Tensor place = torch::full({7, 3}, -1.0);
  OnePlace wanted(c.kernel, place);
  {
    const GradientDestinations::Scope here(wanted);
    matrix_product(c.input, c.kernel, c.bias).sum().backward();
  }
  EXPECT_EQ(c.kernel.grad().data_ptr(), place.data_ptr());
  EXPECT_TRUE(place.equal(c.input.detach().t().mm(torch::ones({5, 3}))));
  EXPECT_FALSE(take_gradient_destination(c.kernel).defined());
}

TEST(MatrixProduct, AKernelUsedTwiceHasTheSumOfBothGradients) {
  torch::manual_seed(3);
  const Case c;
  const Tensor other = torch::randn({4, 7});
  OnePlace wanted(c.kernel, torch::zeros({7, 3}));
  {
    const GradientDestinations::Scope here(wanted);
    (matrix_product(c.input, c.kernel, c.bias).sum() +
     matrix_product(other, c.kernel, c.bias).square().sum())
        .backward();
  }
  const Tensor got = c.kernel.grad().clone();
  c.kernel.mutable_grad().reset();
  (at::addmm(c.bias, c.input, c.kernel).sum() + at::addmm(c.bias, other, c.kernel).square().sum())
      .backward();
  EXPECT_TRUE(torch::allclose(got, c.kernel.grad(), 1e-6, 1e-6));
}

TEST(MatrixProduct, GradientsCanBeDerivedAgain) {
  torch::manual_seed(4);
  const auto second = [](const Tensor& input, const Tensor& kernel, const Tensor& output) {
    const Tensor gradient = torch::autograd::grad({output.square().sum()}, {input}, {}, {},
                                                  /*create_graph=*/true)[0];
    return torch::autograd::grad({gradient.square().sum()}, {kernel})[0];
  };
  const Case c;
  OnePlace wanted(c.kernel, torch::zeros({7, 3}));
  const GradientDestinations::Scope here(wanted);
  EXPECT_TRUE(torch::allclose(second(c.input, c.kernel, matrix_product(c.input, c.kernel, c.bias)),
                              second(c.input, c.kernel, at::addmm(c.bias, c.input, c.kernel)), 1e-6,
                              1e-6));
}

}  // namespace
}  // namespace muster::inline v0_1::internal
