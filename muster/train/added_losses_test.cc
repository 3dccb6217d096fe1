#include "muster/train/added_losses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/base/error_of.h"
#include "muster/layers/dense.h"
#include "muster/layers/regularizers.h"
#include "muster/optim/optimizer.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/model_runner.h"

namespace muster::inline v0_1 {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

TEST(AddedLossesTest, AreMeansWhichASumOfLossesCountsTimesTheRows) {
  const std::vector<Tensor> added{torch::full({}, 2.0), torch::full({}, 0.5)};
  EXPECT_EQ(sum_of_added(added, ReduceOp::kMean, 4).item<double>(), 2.5);
  EXPECT_EQ(sum_of_added(added, ReduceOp::kSum, 4).item<double>(), 10);
  EXPECT_EQ(sum_of_added(added, ReduceOp::kSum, 0).item<double>(), 0);
  EXPECT_FALSE(sum_of_added({}, ReduceOp::kSum, 4).defined());
}

TEST(AddedLossesTest, JoinTheLossThatAllEntriesShare) {
  const Tensor loss = torch::ones({}, at::kDouble), other = torch::ones({});
  const auto sgd = optim::sgd(), adam = optim::adam();
  auto shared = optim::group({sgd.minimize(loss), adam.minimize(loss)});
  add_to_loss(shared, torch::full({}, 2.0f));
  EXPECT_EQ(shared.entries[0].loss.item<double>(), 3);
  EXPECT_EQ(shared.entries[0].loss.scalar_type(), kFloat64);
  EXPECT_TRUE(shared.entries[0].loss.is_same(shared.entries[1].loss));

  auto several = optim::group({sgd.minimize(loss), adam.minimize(other)});
  add_to_loss(several, Tensor());
  EXPECT_TRUE(several.entries[0].loss.is_same(loss));
  EXPECT_THAT(error_of([&] { add_to_loss(several, torch::ones({})); }).message(),
              HasSubstr("the step has several losses"));
}

// The loss of an evaluation is the loss of the data, 7, with both kinds of penalties.
TEST(AddedLossesTest, AnEvaluatedLossHasThePenalties) {
  const auto dense = [] {
    return Dense(2, {.use_bias = false,
                     .kernel_initializer = initializers::constant(0.5),
                     .kernel_regularizer = regularizers::l1(3),
                     .activity_regularizer = regularizers::l2(2)});
  };
  for (const ReduceOp reduction : {ReduceOp::kMean, ReduceOp::kSum}) {
    const ModelFn model_fn = [&](const Features& features, const Labels&, Mode mode,
                                 ModelContext& context) {
      const Tensor outputs = context.model("net", dense)(features);
      if (mode == Mode::kPredict) return EstimatorSpec::predict(outputs);
      EstimatorSpec spec = EstimatorSpec::eval(torch::full({}, 7.0f));
      spec.loss_reduction = reduction;
      return spec;
    };
    // Each of 4 outputs is 2, and each of 6 weights 0.5.
    const Batch batch = to_batch(Element::tuple({torch::full({2, 3}, 4.0 / 3), torch::zeros({2})}));
    const double activity = 2 * 16.0 / (reduction == ReduceOp::kMean ? 2 : 1);
    const json params = json::object();
    ModelRunner eval(model_fn, Mode::kEval, 0, params);
    for (const int64_t index : {0, 1}) {
      EXPECT_NEAR(eval.run(batch, index).loss.item<double>(), 7 + 3 * 6 * 0.5 + activity, 1e-4);
    }
    ModelRunner predict(model_fn, Mode::kPredict, 0, params);
    EXPECT_FALSE(predict.run(batch, 0).loss.defined());
  }
}

}  // namespace
}  // namespace muster::inline v0_1
