#include "muster/layers/batch_normalization.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/layers/embedding.h"
#include "muster/layers/internal/test_store.h"
#include "muster/layers/step_context.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TestStore;

struct NormalizationTest : ::testing::Test {
  TestStore store;
  StepContext context{store, 11};
};

// Numbers of mean near 100, where a difference of squares loses digits.
Tensor activations(at::IntArrayRef shape) {
  int64_t n = 1;
  for (int64_t size : shape) n *= size;
  return (100 + torch::arange(n, kFloat64).mul(12.9898).sin()).view(shape);
}

TEST_F(NormalizationTest, BatchesAreBroughtToMeanZeroAndVarianceOne) {
  const Layer layer = BatchNormalization({.momentum = 0.75, .epsilon = 1e-9});
  context.begin_step(/*training=*/true, 0, 0);
  const Tensor x = activations({5, 3, 2, 4});
  const Tensor y = layer(x, context).detach().view({-1, 4});
  EXPECT_TRUE(torch::allclose(y.mean(0), torch::zeros({4}, kFloat64), 1e-9, 1e-9));
  EXPECT_TRUE(torch::allclose(y.var(0, false), torch::ones({4}, kFloat64), 1e-6));
  const Tensor flat = x.view({-1, 4});
  EXPECT_THAT(store.names(), ElementsAre("batch_normalization/gamma", "batch_normalization/beta",
                                         "batch_normalization/moving_mean",
                                         "batch_normalization/moving_variance"));
  EXPECT_TRUE(torch::allclose(store.value("batch_normalization/moving_mean"), 0.25 * flat.mean(0)));
  EXPECT_TRUE(torch::allclose(store.value("batch_normalization/moving_variance"),
                              0.75 + 0.25 * flat.var(0, false)));
  // Outside of training the moving ones are used, and stay.
  const Tensor mean = store.value("batch_normalization/moving_mean").clone();
  context.begin_step(/*training=*/false, 0, 0);
  const Tensor scale = (store.value("batch_normalization/moving_variance") + 1e-9).rsqrt();
  EXPECT_TRUE(torch::allclose(layer(x, context).detach(), (x - mean) * scale, 1e-9, 1e-9));
  EXPECT_TRUE(store.value("batch_normalization/moving_mean").equal(mean));
}

TEST_F(NormalizationTest, GradientsAreThoseOfFiniteDifferences) {
  const Layer layer = BatchNormalization();
  context.begin_step(/*training=*/true, 0, 0);
  const Tensor weights = activations({6, 3}) - 100;
  const auto loss = [&](const Tensor& x) { return (layer(x, context).square() * weights).sum(); };
  Tensor x = (activations({6, 3}) - 100).requires_grad_();
  loss(x).backward();
  for (int64_t i : {0, 4, 17}) {
    Tensor up = x.detach().clone(), down = up.clone();
    up.view({-1})[i] += 1e-5;
    down.view({-1})[i] -= 1e-5;
    const double slope = (loss(up) - loss(down)).item<double>() / 2e-5;
    EXPECT_NEAR(x.grad().view({-1})[i].item<double>(), slope, 1e-6);
  }
}

// The two replicas run here one after the other: the values that the first would get from the
// second are known.
TEST_F(NormalizationTest, SynchronizedStatisticsAreThoseOfAllRows) {
  const Tensor all = activations({7, 3});
  const Tensor whole =
      BatchNormalization({.name = "whole"})(all, (context.begin_step(true, 0, 0), context));
  const Layer layer = BatchNormalization({.synchronized = true, .name = "synchronized"});
  std::vector<Tensor> sent(2);
  // First each sends its numbers, then each is given their sum.
  for (const bool answer : {false, true}) {
    for (int64_t r : {0, 1}) {
      TestStore fresh;
      StepContext replica(fresh, 11);
      replica.set_replicas(2, [&](const Tensor& mine) {
        if (!answer) sent[static_cast<size_t>(r)] = mine.detach();
        return answer ? mine + sent[static_cast<size_t>(1 - r)] : mine;
      });
      replica.begin_step(true, 0, r);
      const Tensor part = r == 0 ? all.slice(0, 0, 5) : all.slice(0, 5);
      const Tensor y = layer(part, replica);
      if (!answer) continue;
      EXPECT_TRUE(
          torch::allclose(y, r == 0 ? whole.slice(0, 0, 5) : whole.slice(0, 5), 1e-9, 1e-9));
      EXPECT_TRUE(torch::allclose(fresh.value("synchronized/moving_variance"),
                                  store.value("whole/moving_variance")));
    }
  }
}

TEST_F(NormalizationTest, NoRowsLeaveTheMovingStatisticsAsTheyAre) {
  const Layer layer = BatchNormalization();
  context.begin_step(true, 0, 0);
  const Tensor y = layer(torch::zeros({0, 2}), context);
  EXPECT_EQ(y.sizes(), at::IntArrayRef({0, 2}));
  EXPECT_TRUE(store.value("batch_normalization/moving_mean").equal(torch::zeros({2})));
  EXPECT_TRUE(store.value("batch_normalization/moving_variance").equal(torch::ones({2})));
}

TEST_F(NormalizationTest, OptionsAndInputsAreChecked) {
  const auto refused = [](BatchNormalizationOptions options) {
    return error_of([&] { BatchNormalization(options); }).message();
  };
  EXPECT_THAT(refused({.momentum = 1.5}), HasSubstr("momentum is 1.5"));
  EXPECT_THAT(refused({.epsilon = 0}), HasSubstr("epsilon is 0"));
  const Layer layer = BatchNormalization();
  context.begin_step(true, 0, 0);
  layer(torch::ones({2, 3}), context);
  EXPECT_THAT(error_of([&] {
                layer(torch::ones({2, 4}), context);
              }).message(),
              HasSubstr("expected [..., 3], was given float32[2, 4]"));
}

TEST_F(NormalizationTest, AnEmbeddingGivesTheRowsOfItsTable) {
  for (const bool sparse : {true, false}) {
    const Layer layer = Embedding(5, 3, {.row_sparse = sparse});
    const Tensor ids = torch::tensor({{4, 0}, {4, 2}}, kInt64);
    const Tensor y = layer(ids, context);
    Variable& table = *store.variables().back();
    EXPECT_EQ(y.sizes(), at::IntArrayRef({2, 2, 3}));
    EXPECT_TRUE(y[1][0].equal(table.value()[4]));
    (y * torch::arange(4, kFloat32).view({2, 2, 1})).sum().backward();
    // Row 4 was used with 0 and with 2, row 0 with 1, row 2 with 3.
    if (sparse) {
      ASSERT_EQ(table.row_uses().size(), 1u);
      const Variable::RowUse use = table.take_row_uses()[0];
      EXPECT_TRUE(use.ids.equal(torch::tensor({0, 2, 4}, kInt64)));
      EXPECT_TRUE(use.rows.grad().select(1, 0).equal(torch::tensor({1.f, 3.f, 2.f})));
      EXPECT_FALSE(table.value().grad().defined());
    } else {
      EXPECT_TRUE(table.row_uses().empty());
      EXPECT_TRUE(
          table.value().grad().select(1, 0).equal(torch::tensor({1.f, 0.f, 3.f, 0.f, 2.f})));
    }
  }
}

}  // namespace
}  // namespace muster::inline v0_1
