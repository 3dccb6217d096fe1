// Invariants of statistics over the batch, on several replicas.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/temp_directory.h"
#include "muster/estimator/testing/test_model.h"
#include "muster/layers/batch_normalization.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1 {
namespace {

using nlohmann::json;
using testing::examples;
using testing::largest_difference;
using testing::latest;
using testing::LocalCluster;
using testing::make_optimizer;
using testing::quiet_config;
using testing::same_bits;

// params: "synchronized", "optimizer". Normalizes its input and, with gradients through the
// statistics, a layer's output.
EstimatorSpec normalizing_model_fn(const Features& features, const Labels& labels, Mode mode,
                                   ModelContext& context) {
  const bool synchronized = context.params().value("synchronized", false);
  const auto model = context.model("net", [&] {
    const BatchNormalizationOptions options{.momentum = 0.9, .synchronized = synchronized};
    return Sequential({BatchNormalization(options), Dense(8, {.activation = Activation::kTanh}),
                       BatchNormalization(options), Dense(2)});
  });
  const Tensor logits = model(features["x"]);
  const Tensor loss =
      losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true});
  if (mode == Mode::kEval) return EstimatorSpec::eval(loss);
  return EstimatorSpec::train(
      loss,
      context.optimizer(make_optimizer(context.params().value("optimizer", "sgd"))).minimize(loss));
}

// Without the values that each replica keeps for itself.
Checkpoint shared(Checkpoint checkpoint) {
  std::erase_if(checkpoint.tensors,
                [](const auto& entry) { return entry.first.ends_with("/replicas"); });
  return checkpoint;
}

Checkpoint train(const std::string& model_dir, const distribute::StrategyPtr& strategy,
                 const json& params, const Dataset& data, const Environment& environment = {},
                 std::optional<int64_t> max_steps = {}, int64_t accumulate_steps = 1) {
  RunConfig config = quiet_config(model_dir, strategy, environment);
  config.accumulate_steps = accumulate_steps;
  Estimator(normalizing_model_fn, config, params)
      .train([&] { return data; }, {.max_steps = max_steps});
  return latest(model_dir);
}

class SynchronizedLawTest : public ::testing::TestWithParam<int64_t> {};

TEST_P(SynchronizedLawTest, ReplicasComputeWhatOneComputes) {
  const int64_t rows = GetParam();
  for (const char* optimizer : {"sgd", "adam"}) {
    TempDirectory directory;
    const json params{{"synchronized", true}, {"optimizer", optimizer}};
    const Dataset data = examples(rows).shuffle(rows).repeat(2).global_batch(12);
    const auto on = [&](int n) {
      return shared(train(directory / std::to_string(n), distribute::mirrored({.replicas = n}),
                          params, data));
    };
    const Checkpoint one = on(1);
    for (int n : {2, 3, 4})
      EXPECT_LT(largest_difference(on(n), one), 5e-5) << optimizer << ", " << n << " replicas";
    const LocalCluster cluster(2);
    testing::run_ranks(2, [&](int rank) {
      train(directory / "workers", distribute::multi_worker_mirrored(), params, data,
            cluster.environment(rank));
    });
    EXPECT_TRUE(same_bits(shared(latest(directory / "workers")), shared(latest(directory / "2"))));
  }
}
// 60: full batches; 53: a ragged last one; 49: two replicas or more without data in the last step.
INSTANTIATE_TEST_SUITE_P(Rows, SynchronizedLawTest, ::testing::Values(60, 53, 49));

TEST(BatchNormalizationTest, UnsynchronizedReplicasComputeSomethingElse) {
  TempDirectory directory;
  const Dataset data = examples(48).global_batch(12);
  const Checkpoint one = train(directory / "1", distribute::one_device(), json::object(), data);
  const Checkpoint two =
      shared(train(directory / "2", distribute::mirrored({.replicas = 2}), json::object(), data));
  EXPECT_GT(largest_difference(two, one), 1e-3);
}

// One step on known data: each replica's moving mean is taken over its part, and a replica without
// rows keeps its mean.
TEST(BatchNormalizationTest, MovingStatisticsAreTheMeanOfThoseOfTheReplicas) {
  const Dataset all = examples(8);
  Tensor x;
  ASSERT_EQ(1, [&] {
    const auto iterator = all.batch(8).iterator({});
    const auto element = iterator->next();
    x = Features(element->part(0))["x"];
    return 1;
  }());
  for (int64_t rows : {8, 1}) {
    TempDirectory directory;
    const Checkpoint checkpoint = train(directory / "m", distribute::mirrored({.replicas = 2}),
                                        json::object(), all.take(rows).global_batch(8), {}, 1);
    const Tensor mine = checkpoint.tensors.at("net/batch_normalization/moving_mean/replicas");
    const int64_t half = rows == 8 ? 4 : 1;
    EXPECT_TRUE(torch::allclose(mine[0], 0.1 * x.slice(0, 0, half).mean(0), 1e-5, 1e-7));
    const Tensor second = rows == 8 ? 0.1 * x.slice(0, 4, 8).mean(0) : torch::zeros({10});
    EXPECT_TRUE(torch::allclose(mine[1], second, 1e-5, 1e-7));
    EXPECT_TRUE(torch::allclose(checkpoint.tensors.at("net/batch_normalization/moving_mean"),
                                mine.mean(0), 1e-5, 1e-7));
    const Tensor variance =
        checkpoint.tensors.at("net/batch_normalization/moving_variance/replicas");
    EXPECT_TRUE(torch::allclose(
        variance[0], 0.9 + 0.1 * x.slice(0, 0, half).var(0, /*unbiased=*/false), 1e-5, 1e-6));
    if (rows == 1) {
      EXPECT_TRUE(variance[1].equal(torch::ones({10})));
    }
  }
}

TEST(BatchNormalizationTest, ResumeIsBitForBit) {
  for (const bool synchronized : {false, true}) {
    TempDirectory directory;
    const json params{{"synchronized", synchronized}, {"optimizer", "adam"}};
    const auto strategy = distribute::mirrored({.replicas = 2});
    const Dataset data = examples(50).shuffle(50).repeat().global_batch(14);
    train(directory / "whole", strategy, params, data, {}, 12, 2);
    train(directory / "parts", strategy, params, data, {}, 5, 2);
    train(directory / "parts", strategy, params, data, {}, 12, 2);
    EXPECT_TRUE(same_bits(latest(directory / "parts"), latest(directory / "whole")));
  }
}

TEST(BatchNormalizationTest, EvaluationUsesTheMovingStatistics) {
  TempDirectory directory;
  const json params{{"synchronized", true}};
  train(directory / "m", distribute::mirrored({.replicas = 2}), params,
        examples(48).repeat(5).global_batch(12));
  Estimator estimator(normalizing_model_fn, quiet_config(directory / "m"), params);
  const double whole = estimator.evaluate([] { return examples(24).batch(24); }).at("loss");
  const double single = estimator.evaluate([] { return examples(24).batch(1); }).at("loss");
  EXPECT_NEAR(whole, single, 1e-5);
}

}  // namespace
}  // namespace muster::inline v0_1
