// Invariant of losses: added or averaged, weighted or not, n replicas compute what one computes on
// the undivided batch.
#include <gtest/gtest.h>

#include <functional>

#include "muster/base/error_of.h"
#include "muster/distribute/strategy.h"
#include "muster/layers/dense.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/loop/scope.h"
#include "muster/loop/testing/test_loops.h"
#include "muster/losses/losses.h"
#include "muster/optim/optimizer.h"
#include "muster/optim/train_op.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {
namespace {

using losses::Reduction;

// A loss of labels [rows, 3] in {0, 1}, of which the first of a row is 1 if the second is not.
struct NamedLoss {
  const char* name{};
  std::function<Tensor(const Tensor& labels, const Tensor& outputs, const Tensor& weights,
                       Reduction reduction)>
      loss{};
};

// Calls `function` on outputs as they are, or made positive by `positive`.
template <typename Function, typename Options>
NamedLoss named(const char* name, Function function, Options options, bool positive = false) {
  return {name, [=](const Tensor& y, const Tensor& x, const Tensor& w, Reduction reduction) {
            Options given = options;
            given.reduction = reduction;
            given.sample_weight = w;
            return function(y, positive ? x.sigmoid() : x, given);
          }};
}

std::vector<NamedLoss> every_loss() {
  using namespace losses;
  return {
      named("binary_crossentropy", binary_crossentropy,
            BinaryCrossentropyOptions{.from_logits = true}),
      named("categorical_crossentropy", categorical_crossentropy,
            CategoricalCrossentropyOptions{.from_logits = true, .label_smoothing = 0.1}),
      {"sparse_categorical_crossentropy",
       [](const Tensor& y, const Tensor& x, const Tensor& w, Reduction r) {
         return sparse_categorical_crossentropy(
             y.argmax(-1), x, {.from_logits = true, .reduction = r, .sample_weight = w});
       }},
      named("binary_focal_crossentropy", binary_focal_crossentropy,
            BinaryFocalCrossentropyOptions{.from_logits = true}),
      named("categorical_focal_crossentropy", categorical_focal_crossentropy,
            CategoricalFocalCrossentropyOptions{.from_logits = true}),
      named("mean_squared_error", mean_squared_error, MeanSquaredErrorOptions{}),
      named("mean_absolute_error", mean_absolute_error, MeanAbsoluteErrorOptions{}),
      {"mean_absolute_percentage_error",
       [](const Tensor& y, const Tensor& x, const Tensor& w, Reduction r) {
         return mean_absolute_percentage_error(y + 100, x, {.reduction = r, .sample_weight = w});
       }},
      named("mean_squared_logarithmic_error", mean_squared_logarithmic_error,
            MeanSquaredLogarithmicErrorOptions{}, true),
      named("huber", huber, HuberOptions{.delta = 0.4}),
      named("log_cosh", log_cosh, LogCoshOptions{}),
      named("hinge", hinge, HingeOptions{}),
      named("squared_hinge", squared_hinge, SquaredHingeOptions{}),
      named("categorical_hinge", categorical_hinge, CategoricalHingeOptions{}),
      named("kl_divergence", kl_divergence, KlDivergenceOptions{}, true),
      named("poisson", poisson, PoissonOptions{}, true),
      named("log_poisson_loss", log_poisson_loss, LogPoissonLossOptions{}),
      named("cosine_similarity", cosine_similarity, CosineSimilarityOptions{}),
      {"ctc_loss",
       [](const Tensor& y, const Tensor& x, const Tensor& w, Reduction r) {
         const Tensor length = torch::ones({x.size(0)}, at::kLong);
         const Tensor labels = y.select(1, 1).to(at::kLong).unsqueeze(1);
         return ctc_loss(labels, x.unsqueeze(1).expand({-1, 4, -1}), length, length * 4,
                         {.from_logits = true, .reduction = r, .sample_weight = w});
       }},
  };
}

// The result of a run: weights, and the loss of each step.
struct Trained {
  Tensor kernel;
  std::vector<double> losses;
};

// 13 examples in batches of 6: the last one leaves replicas without any.
Trained train(const StrategyPtr& strategy, const NamedLoss& each, Reduction reduction,
              bool weighted) {
  const auto scope = strategy->scope(alone(3));
  const Layer model = Dense(3);
  const auto sgd = optim::sgd({.learning_rate = 0.02});
  Trained trained;
  const auto step = [&](const Features& features, const Labels&) {
    const Tensor& x = features;
    const Tensor second = x.select(1, 0).gt(0).to(kFloat32);
    const Tensor y = at::stack({1 - second, second, torch::zeros_like(second)}, 1);
    const Tensor weights = losses::class_weights(second, {0.5, 2}) * x.select(1, 1).abs();
    const Tensor loss = each.loss(y, model(x), weighted ? weights : Tensor(), reduction);
    // The caller reduces losses that are not reduced.
    sgd.minimize(reduction == Reduction::kNone ? losses::reduce(loss, Reduction::kMean) : loss);
  };
  const ReduceOp reduce_op =
      reduction == Reduction::kNone ? ReduceOp::kMean : losses::over_replicas(reduction);
  for (const auto& batch : strategy->distribute(points(13).batch(6))) {
    strategy->run({.loss_reduction = reduce_op}, step, batch);
    trained.losses.push_back(scope.last_step().loss);
  }
  trained.kernel = scope.variable("dense/kernel").clone();
  return trained;
}

TEST(LossLawTest, ReplicasComputeTheLossOfTheWholeBatch) {
  for (const NamedLoss& each : every_loss()) {
    for (const auto reduction : {Reduction::kMean, Reduction::kSum, Reduction::kNone}) {
      for (const bool weighted : {false, true}) {
        SCOPED_TRACE(::testing::Message()
                     << each.name << ", reduction " << static_cast<int>(reduction) << ", weighted "
                     << weighted);
        const Trained one = train(one_device(), each, reduction, weighted);
        const Trained two = train(mirrored({.replicas = 2}), each, reduction, weighted);
        ASSERT_EQ(one.losses.size(), 3u);
        ASSERT_EQ(two.losses.size(), 3u);
        for (size_t i = 0; i < one.losses.size(); ++i) {
          EXPECT_NEAR(one.losses[i], two.losses[i], 2e-5 * std::max(1.0, std::abs(one.losses[i])));
        }
        EXPECT_TRUE(at::allclose(one.kernel, two.kernel, 1e-4, 1e-5));
      }
    }
  }
}

// The test above would not see a rule that makes sums of means.
TEST(LossLawTest, ASumIsAsManyTimesTheMeanAsThereAreExamples) {
  const NamedLoss loss = every_loss().front();
  const Trained mean = train(mirrored({.replicas = 2}), loss, Reduction::kMean, true);
  const Trained sum = train(mirrored({.replicas = 2}), loss, Reduction::kSum, true);
  EXPECT_NEAR(sum.losses[0], 6 * mean.losses[0], 1e-5);
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
