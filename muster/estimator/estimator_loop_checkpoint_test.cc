// Checkpoints of loops written by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/testing/test_model.h"
#include "muster/layers/batch_normalization.h"
#include "muster/layers/embedding.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/loop/replica_context.h"
#include "muster/loop/scope.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1 {
namespace {

using distribute::ReplicaContext;
using distribute::StrategyPtr;
using testing::examples;
using ::testing::HasSubstr;
using testing::largest_difference;
using testing::latest;
using testing::LocalCluster;
using testing::loss_of;
using testing::quiet_config;
using testing::run_ranks;
using testing::same_bits;

constexpr int64_t kRows = 50, kBatch = 12;  // five batches a pass, the last one ragged

// Trains until step `end`, with a checkpoint there; continues if there is one. The model has all
// state that is hard to continue: moments, dropout, statistics of each replica, a table.
int64_t train(const StrategyPtr& strategy, const std::string& model_dir, int64_t end,
              const Environment& environment = {}, int64_t accumulate_steps = 1) {
  const auto scope = strategy->scope(
      {.seed = 5, .accumulate_steps = accumulate_steps, .environment = environment});
  const Layer table = Embedding(static_cast<int64_t>(kRows), 3);
  const Layer model = Sequential({Dense(8, {.activation = activations::relu}),
                                  BatchNormalization({.momentum = 0.9}), Dropout(0.2)});
  const Layer top = Dense(2);
  const auto adam = optim::adam({.learning_rate = 0.05});
  auto data = strategy->distribute(examples(kRows).shuffle(kRows).batch(kBatch));
  const bool restored = scope.restore(model_dir);
  const int64_t begun = scope.step();
  EXPECT_EQ(restored, begun > 0);
  while (scope.step() < end) {
    for (const auto& batch : data) {
      strategy->run(
          [&](const Features& features, const Labels& labels) {
            const Tensor all = torch::cat({model(features["x"]), table(features["id"])}, 1);
            adam.minimize(loss_of(top(all), labels));
          },
          batch);
      if (scope.step() == end) break;
    }
  }
  const std::string prefix = scope.save(model_dir);
  EXPECT_EQ(prefix.empty(), !scope.is_chief());
  return data.completed_passes();
}

TEST(LoopCheckpointTest, AUriNamesTheDirectory) {
  TempDirectory directory;
  const StrategyPtr strategy = distribute::one_device();
  train(strategy, directory / "whole", 7);
  train(strategy, "file://" + directory / "parts", 3);
  EXPECT_EQ(latest(directory / "parts").global_step, 3);
  train(strategy, "file://" + directory / "parts", 7);
  EXPECT_TRUE(same_bits(latest(directory / "parts"), latest(directory / "whole")));
}

TEST(LoopCheckpointTest, ARunInPartsIsTheRunInOne) {
  for (const StrategyPtr& strategy :
       {distribute::one_device(), distribute::mirrored({.replicas = 2})}) {
    // 7: within a pass; 10: after the last batch of one; 15: the end of the third.
    for (const std::vector<int64_t>& stops : {std::vector<int64_t>{7, 13}, {10, 11}, {1, 15}}) {
      TempDirectory directory;
      EXPECT_EQ(train(strategy, directory / "whole", 17), 3);
      for (int64_t stop : stops) train(strategy, directory / "parts", stop);
      EXPECT_EQ(train(strategy, directory / "parts", 17), 3);
      EXPECT_EQ(latest(directory / "parts").global_step, 17);
      EXPECT_TRUE(same_bits(latest(directory / "parts"), latest(directory / "whole")))
          << strategy->name() << ", stopped after " << stops[0] << " and " << stops[1];
      EXPECT_EQ(latest(directory / "parts").inputs, latest(directory / "whole").inputs);
    }
  }
}

// A position belongs to one data set: a later one in its place begins at its beginning.
TEST(LoopCheckpointTest, APositionIsUsedOnce) {
  TempDirectory directory;
  const StrategyPtr strategy = distribute::mirrored({.replicas = 2});
  // Batches of each epoch, the first one from where it was left.
  const auto train = [&](int epochs, int64_t save_at) {
    const auto scope = strategy->scope({.seed = 5});
    const Layer model = Dense(2);
    const auto sgd = optim::sgd();
    (void)scope.restore(directory.path());
    std::vector<int> batches;
    for (int epoch = 0; epoch < epochs; ++epoch) {
      batches.push_back(0);
      for (const auto& batch : strategy->distribute(examples(kRows).batch(kBatch))) {
        strategy->run(
            [&](const Features& features, const Labels& labels) {
              sgd.minimize(loss_of(model(features["x"]), labels));
            },
            batch);
        ++batches.back();
        if (scope.step() == save_at) {
          scope.save(directory.path());
          return batches;
        }
      }
    }
    return batches;
  };
  EXPECT_THAT(train(1, 3), ::testing::ElementsAre(3));
  EXPECT_THAT(train(3, -1), ::testing::ElementsAre(2, 5, 5));
}

TEST(LoopCheckpointTest, WorkersContinueToo) {
  for (int locals : {1, 2}) {
    TempDirectory directory;
    const auto strategy = distribute::multi_worker_mirrored({.local_replicas = locals});
    const auto on_workers = [&](const std::string& model_dir, int64_t end) {
      const LocalCluster cluster(2);
      run_ranks(2,
                [&](int rank) { train(strategy, model_dir, end, cluster.environment(rank), 2); });
    };
    on_workers(directory / "whole", 9);
    on_workers(directory / "parts", 4);
    on_workers(directory / "parts", 9);
    EXPECT_TRUE(same_bits(latest(directory / "parts"), latest(directory / "whole")));
    // As many replicas of one process write the same.
    train(distribute::mirrored({.replicas = 2 * locals}), directory / "mirrored", 9, {}, 2);
    EXPECT_TRUE(same_bits(latest(directory / "mirrored"), latest(directory / "whole")));
  }
}

// --- loops and Estimators ---

const VariableSpec kKernel{.name = "net/kernel",
                           .shape = {testing::kFeatures, 2},
                           .initializer = initializers::glorot_uniform()};

EstimatorSpec one_kernel(const Features& features, const Labels& labels, Mode mode,
                         ModelContext& context) {
  const Tensor loss = loss_of(features["x"].matmul(context.variable(kKernel)), labels);
  if (mode == Mode::kEval) return EstimatorSpec::eval(loss);
  return EstimatorSpec::train(
      loss, context.optimizer(optim::adam({.learning_rate = 0.1})).minimize(loss));
}

// The same model, for `steps` batches.
void loop(const StrategyPtr& strategy, const std::string& model_dir, const Dataset& data) {
  const auto scope = strategy->scope({.seed = 5, .environment = Environment()});
  const auto adam = optim::adam({.learning_rate = 0.1});
  scope.restore(model_dir);
  for (const auto& batch : strategy->distribute(data.batch(kBatch))) {
    strategy->run(
        [&](const Features& features, const Labels& labels) {
          const Tensor& kernel = ReplicaContext::current().variable(kKernel);
          adam.minimize(loss_of(features["x"].matmul(kernel), labels));
        },
        batch);
  }
  scope.save(model_dir);
}

TEST(LoopCheckpointTest, AnEstimatorContinuesWhatALoopSavedAndTheOtherWayRound) {
  const Dataset first = examples(48, 1), second = examples(48, 2);
  const auto estimate = [](const StrategyPtr& strategy, const std::string& model_dir,
                           const Dataset& data) {
    RunConfig config = quiet_config(model_dir, strategy);
    config.random_seed = 5;
    Estimator(one_kernel, config).train([&] { return data.global_batch(kBatch); }, {.steps = 4});
  };
  const auto strategy = distribute::mirrored({.replicas = 2});
  TempDirectory directory;
  loop(strategy, directory / "loops", first);
  loop(strategy, directory / "loops", second);
  loop(strategy, directory / "loop first", first);
  estimate(strategy, directory / "loop first", second);
  EXPECT_TRUE(same_bits(latest(directory / "loop first"), latest(directory / "loops")));
  estimate(strategy, directory / "estimator first", first);
  loop(strategy, directory / "estimator first", second);
  EXPECT_TRUE(same_bits(latest(directory / "estimator first"), latest(directory / "loops")));
  EXPECT_EQ(latest(directory / "loop first").global_step, 8);
  // And another number of replicas, to rounding.
  loop(distribute::one_device(), directory / "one", first);
  loop(distribute::mirrored({.replicas = 3}), directory / "one", second);
  EXPECT_LT(largest_difference(latest(directory / "one"), latest(directory / "loops")), 1e-5);
}

TEST(LoopCheckpointTest, ARestoredModelCanBeEvaluatedBeforeItTrains) {
  TempDirectory directory;
  loop(distribute::one_device(), directory / "m", examples(48));
  const Tensor saved = latest(directory / "m").tensors.at("net/kernel");
  for (const bool training : {false, true}) {
    const auto strategy = distribute::mirrored({.replicas = 2});
    const auto scope = strategy->scope({.seed = 9, .environment = Environment()});
    EXPECT_TRUE(scope.restore(directory / "m"));
    EXPECT_EQ(scope.step(), 4);
    const auto kernels = strategy->run({.training = training}, [] {
      return ReplicaContext::current().variable(kKernel).detach().clone();
    });
    for (const Tensor& kernel : kernels) EXPECT_TRUE(kernel.equal(saved));
  }
}

TEST(LoopCheckpointTest, AFunctionThatEvaluatesIsCalledTwiceForItsFirstBatchAlone) {
  TempDirectory directory;
  loop(distribute::one_device(), directory / "m", examples(48));
  const Tensor saved = latest(directory / "m").tensors.at("net/kernel");
  for (const bool training : {false, true}) {
    const auto strategy = distribute::mirrored({.replicas = 2});
    const auto scope = strategy->scope({.environment = Environment()});
    EXPECT_TRUE(scope.restore(directory / "m"));
    std::atomic<int> calls = 0;
    const auto evaluate = [&] {
      ++calls;
      const Tensor& kernel = ReplicaContext::current().variable(kKernel);
      torch::NoGradGuard no_grad;
      Tensor(kernel.detach()).add_(1);
      return kernel.detach().clone();
    };
    auto kernels = strategy->run({.training = training}, evaluate);
    EXPECT_EQ(calls, 4);
    for (int batch = 2; batch <= 4; ++batch)
      kernels = strategy->run({.training = training}, evaluate);
    EXPECT_EQ(calls, 4 + 3 * 2);
    // Values that a function collects in its variables outlast the next batch.
    for (const Tensor& kernel : kernels) EXPECT_TRUE(kernel.equal(saved + 1 + 1 + 1 + 1));
  }
}

TEST(LoopCheckpointTest, StateThatCannotBeSavedOrContinuedIsRefused) {
  TempDirectory directory;
  const auto strategy = distribute::mirrored({.replicas = 2});
  const auto sgd = optim::sgd();
  const auto step = [&](double factor) {
    const Tensor& w = ReplicaContext::current().variable(
        {.name = "w", .shape = {2}, .initializer = initializers::ones()});
    sgd.minimize((w * factor).sum());
  };
  {
    const auto scope = strategy->scope({.accumulate_steps = 2, .environment = Environment()});
    EXPECT_FALSE(scope.restore(directory / "none"));
    EXPECT_THAT(error_of([&] { scope.save(directory / "m"); }).message(),
                HasSubstr("before anything was trained"));
    strategy->run(step, 1.0);
    EXPECT_THAT(error_of([&] { scope.save(directory / "m"); }).message(),
                HasSubstr("1 of 2 batches wait for their update"));
    scope.apply_accumulated();
    scope.save(directory / "m");
    EXPECT_TRUE(std::filesystem::exists(directory / "m/model.ckpt-1.safetensors"));
    EXPECT_THAT(error_of([&] { scope.restore(directory / "m"); }).message(),
                HasSubstr("restore() was called after 1 steps"));
  }
  const auto scope = strategy->scope({.environment = Environment()});
  EXPECT_TRUE(scope.restore(directory / "m"));
  EXPECT_THAT(error_of([&] {
                strategy->run([&] {
                  const Tensor& w = ReplicaContext::current().variable(
                      {.name = "w", .shape = {3}, .initializer = initializers::ones()});
                  sgd.minimize(w.sum());
                });
              }).message(),
              HasSubstr("model.ckpt-1"));
}

}  // namespace
}  // namespace muster::inline v0_1
