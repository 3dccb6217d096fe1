#include "muster/losses/cross_entropy.h"

#include <gtest/gtest.h>

#include <cmath>

#include "muster/base/error_of.h"
#include "muster/losses/focal.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::losses {
namespace {

TEST(BinaryCrossentropy, ClipsProbabilitiesAndAddsEpsilon) {
  const Tensor p = torch::tensor({0.0, 1.0, 1.0, 0.0}, at::kDouble);
  const Tensor y = torch::tensor({1, 0, 1, 0});
  const Tensor each = binary_crossentropy(y, p, {.reduction = Reduction::kNone});
  ASSERT_EQ(each.sizes(), Shape{4});
  const double worst = -std::log(1e-7 + 1e-7);
  EXPECT_NEAR(each[0].item<double>(), worst, 1e-8);
  EXPECT_NEAR(each[1].item<double>(), worst, 1e-8);
  EXPECT_NEAR(each[2].item<double>(), 0, 1e-12);
  EXPECT_NEAR(each[3].item<double>(), 0, 1e-12);
}

TEST(BinaryCrossentropy, LargeLogitsDoNotOverflow) {
  const Tensor logits = torch::tensor({1000.0f, -1000.0f}).requires_grad_();
  const Tensor each = binary_crossentropy(torch::tensor({0, 0}), logits,
                                          {.from_logits = true, .reduction = Reduction::kNone});
  EXPECT_EQ(each[0].item<float>(), 1000);
  EXPECT_EQ(each[1].item<float>(), 0);
  each.sum().backward();
  EXPECT_EQ(logits.grad()[0].item<float>(), 1);
  EXPECT_EQ(logits.grad()[1].item<float>(), 0);
}

TEST(CategoricalCrossentropy, OfOneHotLabelsIsTheSparseOne) {
  const Tensor x = (torch::arange(24, at::kDouble) * 12.9898).sin().view({2, 3, 4});
  const Tensor classes = torch::tensor({{0, 3, 2}, {1, 1, 0}});
  const Tensor one_hot = at::one_hot(classes, 4);
  const Tensor sparse = sparse_categorical_crossentropy(
      classes, x, {.from_logits = true, .reduction = Reduction::kNone});
  const Tensor dense =
      categorical_crossentropy(one_hot, x, {.from_logits = true, .reduction = Reduction::kNone});
  EXPECT_EQ(dense.sizes(), (Shape{2, 3}));
  EXPECT_TRUE(at::allclose(sparse, dense, 1e-13, 1e-13));
}

TEST(CrossEntropies, TakeClassesOfAnotherAxis) {
  const Tensor x = (torch::arange(24, at::kDouble) * 12.9898).sin().view({2, 3, 4});
  const Tensor p = x.sigmoid();
  const Tensor classes = torch::tensor({{0, 3, 2}, {1, 1, 0}});
  const Tensor y = at::one_hot(classes, 4);
  const Tensor turned = x.transpose(1, 2);
  const auto same = [](const Tensor& a, const Tensor& b) {
    EXPECT_EQ(a.sizes(), b.sizes());
    EXPECT_TRUE(at::allclose(a, b, 1e-13, 1e-13));
  };
  const auto none = Reduction::kNone;
  for (const int64_t axis : {1, -2}) {
    same(sparse_categorical_crossentropy(classes, p.transpose(1, 2),
                                         {.axis = axis, .reduction = none}),
         sparse_categorical_crossentropy(classes, p, {.reduction = none}));
    same(categorical_crossentropy(y.transpose(1, 2), p.transpose(1, 2),
                                  {.label_smoothing = 0.1, .axis = axis, .reduction = none}),
         categorical_crossentropy(y, p, {.label_smoothing = 0.1, .reduction = none}));
    same(categorical_focal_crossentropy(
             y.transpose(1, 2), turned,
             {.alpha = {1, 2, 3, 4}, .from_logits = true, .axis = axis, .reduction = none}),
         categorical_focal_crossentropy(
             y, x, {.alpha = {1, 2, 3, 4}, .from_logits = true, .reduction = none}));
    same(binary_crossentropy(y.transpose(1, 2), p.transpose(1, 2),
                             {.axis = axis, .reduction = none}),
         binary_crossentropy(y, p, {.reduction = none}));
    same(binary_focal_crossentropy(y.transpose(1, 2), p.transpose(1, 2),
                                   {.axis = axis, .reduction = none}),
         binary_focal_crossentropy(y, p, {.reduction = none}));
  }
}

TEST(SparseCategoricalCrossentropy, IgnoresAClass) {
  const Tensor x = (torch::arange(20, at::kDouble) * 12.9898).sin().view({5, 4});
  const Tensor labels = torch::tensor({2, -1, 0, -1, 3});
  const Tensor kept = torch::tensor({0, 2, 4});
  const Tensor weights = torch::tensor({1.0, 7.0, 2.0, 7.0, 0.5}, at::kDouble);
  for (const Tensor& w : {Tensor(), weights}) {
    const auto expected = [&](Reduction reduction) {
      return sparse_categorical_crossentropy(
          labels.index_select(0, kept), x.index_select(0, kept),
          {.from_logits = true,
           .reduction = reduction,
           .sample_weight = w.defined() ? w.index_select(0, kept) : w});
    };
    const auto actual = [&](Reduction reduction) {
      return sparse_categorical_crossentropy(
          labels, x,
          {.from_logits = true, .ignore_class = -1, .reduction = reduction, .sample_weight = w});
    };
    for (const auto reduction : {Reduction::kMean, Reduction::kSum})
      EXPECT_NEAR(actual(reduction).item<double>(), expected(reduction).item<double>(), 1e-12);
    const Tensor each = actual(Reduction::kNone);
    EXPECT_TRUE(at::allclose(each.index_select(0, kept), expected(Reduction::kNone)));
    EXPECT_EQ(each[1].item<double>(), 0);
  }
  // Where nothing counts, the loss and its gradients are 0.
  Tensor alone = x.clone().requires_grad_();
  const Tensor loss = sparse_categorical_crossentropy(torch::full({5}, 255), alone,
                                                      {.from_logits = true, .ignore_class = 255});
  EXPECT_EQ(loss.item<double>(), 0);
  loss.backward();
  EXPECT_TRUE(alone.grad().eq(0).all().item<bool>());
}

// EstimatorSpec::loss_weight does the same with the losses of replicas.
TEST(SparseCategoricalCrossentropy, PartsWeighedByTheirCountedLabelsMakeTheWhole) {
  const Tensor x = (torch::arange(20, at::kDouble) * 12.9898).sin().view({5, 4});
  const Tensor labels = torch::tensor({2, -1, 0, -1, 3});
  const auto mean = [&](int64_t begin, int64_t end) {
    return sparse_categorical_crossentropy(labels.slice(0, begin, end), x.slice(0, begin, end),
                                           {.from_logits = true, .ignore_class = -1})
        .item<double>();
  };
  EXPECT_NEAR((mean(0, 2) * 1 + mean(2, 5) * 2) / 3, mean(0, 5), 1e-12);
}

TEST(FocalLosses, WithoutFocusAreCrossEntropies) {
  const Tensor y = torch::tensor({{1.0, 0.0, 0.0}, {0.0, 0.25, 0.75}}, at::kDouble);
  const Tensor p = torch::tensor({{0.7, 0.2, 0.1}, {0.1, 0.6, 0.3}}, at::kDouble);
  EXPECT_NEAR(binary_focal_crossentropy(y, p, {.gamma = 0}).item<double>(),
              binary_crossentropy(y, p).item<double>(), 1e-12);
  EXPECT_NEAR(categorical_focal_crossentropy(y, p, {.alpha = {1}, .gamma = 0}).item<double>(),
              categorical_crossentropy(y, p).item<double>(), 1e-12);
}

TEST(FocalLosses, StayNumbersWherePredictionsAreCertain) {
  const Tensor y = torch::tensor({{1.0f, 0.0f}, {0.0f, 1.0f}});
  Tensor p = torch::tensor({{1.0f, 0.0f}, {1.0f, 0.0f}}).requires_grad_();
  const Tensor loss = binary_focal_crossentropy(y, p, {.gamma = 2.5}) +
                      categorical_focal_crossentropy(y, p, {.gamma = 2.5});
  loss.backward();
  EXPECT_TRUE(std::isfinite(loss.item<float>()));
  EXPECT_TRUE(p.grad().isfinite().all().item<bool>());
}

}  // namespace
}  // namespace muster::inline v0_1::losses
