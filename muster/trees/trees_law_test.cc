// Invariants of boosted trees: changes that must not affect them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <thread>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/trees/internal/test_rows.h"
#include "tests/support/local_cluster.h"
#include "tests/support/process_tasks.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1 {
namespace {

using distribute::mirrored;
using testing::LocalCluster;
using testing::predicted;
using testing::run_ranks;
using testing::test_rows;
using testing::TestRows;
using testing::trees_config;
using trees::Ensemble;

const BoostedTreesClassifierOptions kNoOptions;

BoostedTreesClassifierOptions options_of(int64_t classes) {
  return {.n_classes = classes,
          .weight_column = "weight",
          .n_trees = 6,
          .max_depth = 4,
          .l2_regularization = 0.5,
          .tree_complexity = 0.2,
          .center_bias = classes == 2,
          .pruning_mode = trees::PruningMode::kPost,
          .categorical_features = {"kind"}};
}

Ensemble trees_of(const Dataset& data, const BoostedTreesClassifierOptions& options,
                  distribute::StrategyPtr strategy = nullptr) {
  TempDirectory directory;
  BoostedTreesClassifier model(options, trees_config(directory.path(), std::move(strategy)));
  model.train([&] { return data; });
  return model.ensemble();
}

class TreesLawTest : public ::testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Classes, TreesLawTest, ::testing::Values(2, 4));

TEST_P(TreesLawTest, AnyNumberOfReplicasMakesTheSameTrees) {
  const Dataset data = test_rows(1003, GetParam()).dataset();
  const auto options = options_of(GetParam());
  const Ensemble one = trees_of(data, options);
  EXPECT_GT(one.trees.at(0).depth(), 2);
  for (const int replicas : {2, 3})
    EXPECT_EQ(trees_of(data, options, mirrored({.replicas = replicas})), one) << replicas;
}

TEST_P(TreesLawTest, AnyNumberOfWorkersMakesTheSameTrees) {
  TempDirectory directory;
  const Dataset data = test_rows(1003, GetParam()).dataset();
  const auto options = options_of(GetParam());
  const Ensemble one = trees_of(data, options);
  const LocalCluster cluster(3);
  run_ranks(3, [&](int rank) {
    RunConfig config = trees_config(directory.path(), distribute::multi_worker_mirrored());
    config.environment = cluster.environment(rank);
    config.join_timeout = Seconds(60);
    BoostedTreesClassifier model(options, config);
    model.train([&] { return data; });
    EXPECT_EQ(model.ensemble(), one) << rank;
  });
}

// Each worker reads data of its own: one of them much, one little, one nothing.
TEST(TreesLawTest, AnInputMayBeDividedByHand) {
  TempDirectory directory;
  const TestRows rows = test_rows(700, 2);
  const auto options = options_of(2);
  const Ensemble one = trees_of(rows.dataset(), options);
  const LocalCluster cluster(3);
  run_ranks(3, [&](int rank) {
    RunConfig config = trees_config(directory.path(), distribute::multi_worker_mirrored());
    config.environment = cluster.environment(rank);
    config.join_timeout = Seconds(60);
    BoostedTreesClassifier model(options, config);
    model.train([&](const InputContext& context) {
      const int64_t begins[] = {0, 640, 700, 700};
      const int64_t begin = begins[context.input_pipeline_id];
      const int64_t end = begins[context.input_pipeline_id + 1];
      return rows.select(torch::arange(begin, std::max(end, begin + 1), kInt64) % 700)
          .dataset(30)
          .take(begin == end ? 0 : -1);
    });
    EXPECT_EQ(model.ensemble(), one) << rank;
  });
}

// More replicas than one of them has rows for.
TEST(TreesLawTest, AReplicaMayHaveNoRows) {
  const TestRows rows = test_rows(40, 2);
  const auto options = options_of(2);
  EXPECT_EQ(trees_of(rows.dataset(1), options, mirrored({.replicas = 3})),
            trees_of(rows.dataset(40), options));
}

TEST_P(TreesLawTest, TheOrderOfRowsDoesNotMatter) {
  const TestRows rows = test_rows(900, GetParam());
  const auto options = options_of(GetParam());
  const Ensemble one = trees_of(rows.dataset(), options);
  EXPECT_EQ(trees_of(rows.select(torch::arange(900, kInt64).flip(0)).dataset(7), options), one);
  EXPECT_EQ(trees_of(rows.dataset().shuffle(100), options), one);
}

TEST(TreesLawTest, ARowOfWeightZeroIsNone) {
  TestRows rows = test_rows(800, 2);
  const Tensor kept = torch::arange(0, 800, 2, kInt64);
  const Ensemble without = trees_of(rows.select(kept).dataset(), options_of(2));
  rows.weight.zero_();
  rows.weight.index_fill_(0, kept, 1);
  EXPECT_EQ(trees_of(rows.dataset(), options_of(2)), without);
}

// The same questions; leaves agree as far as whole numbers are rounded.
TEST(TreesLawTest, AWeightIsAsManyRows) {
  TestRows rows = test_rows(500, 2);
  const Tensor twice = torch::cat({torch::arange(500, kInt64), torch::arange(0, 500, 3, kInt64)});
  const Ensemble repeated = trees_of(rows.select(twice).dataset(), options_of(2));
  rows.weight.index_fill_(0, torch::arange(0, 500, 3, kInt64), 2);
  const Ensemble weighted = trees_of(rows.dataset(), options_of(2));
  ASSERT_EQ(weighted.trees.size(), repeated.trees.size());
  for (size_t t = 0; t < weighted.trees.size(); ++t) {
    ASSERT_EQ(weighted.trees[t].nodes.size(), repeated.trees[t].nodes.size());
    for (size_t n = 0; n < weighted.trees[t].nodes.size(); ++n) {
      const trees::Node &a = weighted.trees[t].nodes[n], &b = repeated.trees[t].nodes[n];
      EXPECT_EQ(a.feature, b.feature);
      EXPECT_EQ(a.threshold, b.threshold);
      EXPECT_NEAR(a.value, b.value, 1e-4);
    }
  }
}

// A tree asks for the order of values alone.
TEST(TreesLawTest, MapsOfValuesThatKeepTheirOrderKeepThePredictions) {
  TestRows rows = test_rows(700, 2);
  const auto logits = [&] {
    TempDirectory directory;
    BoostedTreesClassifier model(options_of(2), trees_config(directory.path()));
    model.train([&] { return rows.dataset(); });
    return predicted(model, rows.dataset(), "logits");
  };
  const std::vector<float> before = logits();
  rows.x = (rows.x * 0.7).exp() + rows.x;
  EXPECT_EQ(logits(), before);
}

TEST(TreesLawTest, MoreTreesFitBetter) {
  const TestRows rows = test_rows(500, 2);
  double loss = 1;
  for (const int64_t trees : {1, 5, 25}) {
    TempDirectory directory;
    auto options = kNoOptions;
    options.n_trees = trees;
    BoostedTreesClassifier model(options, trees_config(directory.path()));
    model.train([&] { return rows.dataset(); });
    const double now = model.evaluate([&] { return rows.dataset(); }).at("average_loss");
    EXPECT_LT(now, loss);
    loss = now;
  }
}

TEST_P(TreesLawTest, AContinuedRunMakesTheSameTrees) {
  TempDirectory directory;
  const Dataset data = test_rows(600, GetParam()).dataset();
  const auto options = options_of(GetParam());
  const Ensemble whole = trees_of(data, options);
  BoostedTreesClassifier first(options, trees_config(directory.path()));
  const TrainResult part = first.train([&] { return data; }, {.max_steps = 9});
  EXPECT_LT(first.ensemble().rounds(), whole.rounds());
  // The rest on another number of replicas.
  BoostedTreesClassifier second(options, trees_config(directory.path(), mirrored({.replicas = 2})));
  const TrainResult rest = second.train([&] { return data; });
  EXPECT_EQ(second.ensemble(), whole);
  EXPECT_EQ(rest.steps, rest.global_step - part.global_step);
  EXPECT_EQ(second.train([&] { return data; }).steps, 0);
}

TEST(TreesLawTest, WorkersMustWantTheSame) {
  TempDirectory directory;
  const Dataset data = test_rows(100, 2).dataset();
  const LocalCluster cluster(2);
  run_ranks(2, [&](int rank) {
    RunConfig config = trees_config(directory.path(), distribute::multi_worker_mirrored());
    config.environment = cluster.environment(rank);
    config.join_timeout = Seconds(60);
    BoostedTreesClassifier model({.max_depth = 3 + rank}, config);
    EXPECT_THAT(message_of([&] { model.train([&] { return data; }); }),
                ::testing::HasSubstr("max_depth is 3 on worker 0; 4 on worker 1"));
  });
}

// A run that is killed keeps the trees of its last checkpoint, and continues to the same end.
TEST(TreesLawTest, AKilledRunContinues) {
  using std::chrono::milliseconds;
  const Dataset data = test_rows(3000, 2).dataset();
  BoostedTreesClassifierOptions options = options_of(2);
  options.n_trees = 40;
  testing::ProcessTasks tasks(1, [&](testing::Task& task) {
    RunConfig config = trees_config(task.directory() + "/model");
    config.save_checkpoints_steps = 1;
    config.keep_checkpoint_max = 0;  // all: the test reads them meanwhile
    auto endless = options;
    endless.n_trees = 1'000'000;
    BoostedTreesClassifier(endless, config).train([&] { return data; });
  });
  const std::string model_dir = tasks.directory() + "/model";
  const auto trees_there = [&] {
    BoostedTreesClassifier model(options, trees_config(model_dir));
    return model.latest_checkpoint() ? model.ensemble().rounds() : 0;
  };
  for (int i = 0; i < 2000 && trees_there() < 3; ++i) std::this_thread::sleep_for(milliseconds(5));
  tasks.kill(0);
  EXPECT_EQ(tasks.wait(0), -SIGKILL);
  const int64_t kept = trees_there();
  ASSERT_GE(kept, 3);
  options.n_trees = kept + 5;
  BoostedTreesClassifier model(options, trees_config(model_dir));
  model.train([&] { return data; });
  EXPECT_EQ(model.ensemble(), trees_of(data, options));
}

}  // namespace
}  // namespace muster::inline v0_1
