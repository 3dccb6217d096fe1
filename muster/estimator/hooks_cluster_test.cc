// Hooks, early stopping and steps that are not finite, on several workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/internal/flawed_data.h"
#include "muster/estimator/internal/scripted_model.h"
#include "muster/train/early_stopping.h"
#include "muster/train/hooks.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1 {
namespace {

using testing::batch_normalized;
using testing::examples;
using testing::falls_until_30;
using testing::flawed_batches;
using testing::latest;
using testing::LocalCluster;
using testing::quiet_config;
using testing::same_bits;
using testing::two_layers;

// Runs `body` on two workers with a model_dir in common.
void on_two(const std::string& model_dir, const ModelFn& model,
            const std::function<void(Estimator&, int)>& body,
            const std::function<void(RunConfig&)>& change = {}) {
  const LocalCluster cluster(2);
  testing::run_ranks(2, [&](int rank) {
    RunConfig config =
        quiet_config(model_dir, distribute::multi_worker_mirrored(), cluster.environment(rank));
    if (change) change(config);
    Estimator estimator(model, config);
    body(estimator, rank);
  });
}

Dataset endless() { return examples(60).repeat().global_batch(12); }

TEST(HooksClusterTest, StopAtStepIsExactWhoeverHasIt) {
  for (const int owner : {0, 1}) {
    TempDirectory directory;
    on_two(directory / "m", two_layers, [&](Estimator& estimator, int rank) {
      TrainOptions options{.max_steps = 30};
      if (rank == owner) options.hooks = {hooks::stop_at_step({.num_steps = 7})};
      const TrainResult result = estimator.train(endless, options);
      EXPECT_EQ(result.global_step, 7);
      EXPECT_TRUE(result.stopped);
    });
    EXPECT_EQ(latest(directory / "m").global_step, 7);
  }
}

TEST(HooksClusterTest, EarlyStoppingEndsAllAndARestartMakesNoStep) {
  TempDirectory directory;
  on_two(directory / "m", falls_until_30, [](Estimator& estimator, int) {
    train_and_evaluate(
        estimator,
        {.input_fn = endless, .max_steps = 200, .hooks = {hooks::stop_if_no_decrease("m", 20)}},
        {.input_fn = [] { return examples(20).batch(10); }});
  });
  EXPECT_EQ(latest(directory / "m").global_step, 51);  // agreed with the step behind the save
  on_two(directory / "m", falls_until_30, [](Estimator& estimator, int) {
    const TrainResult result = estimator.train(
        endless, {.max_steps = 200, .hooks = {hooks::stop_if_no_decrease("m", 20)}});
    EXPECT_EQ(result.steps, 0);
    EXPECT_TRUE(result.stopped);
  });
}

TEST(HooksClusterTest, StepsThatAreNotFiniteAreDroppedByAll) {
  const struct {
    NonFinitePolicy policy;
    std::set<int64_t> lost;
  } cases[] = {{NonFinitePolicy::kSkip, {3}}, {NonFinitePolicy::kRollBack, {2, 3}}};
  for (const auto& law : cases) {
    TempDirectory directory;
    const auto change = [&](RunConfig& config) {
      config.save_checkpoints_steps = 2;
      config.non_finite = law.policy;
    };
    on_two(
        directory / "m", batch_normalized,
        [&](Estimator& estimator, int) {
          const TrainResult result = estimator.train(flawed_batches({}, {3}));
          EXPECT_EQ(result.skipped_steps + result.roll_backs, 1);
          EXPECT_EQ(result.global_step, 10 - static_cast<int64_t>(law.lost.size()));
        },
        change);
    on_two(
        directory / "clean", batch_normalized,
        [&](Estimator& estimator, int) { estimator.train(flawed_batches(law.lost, {})); }, change);
    EXPECT_TRUE(same_bits(latest(directory / "m"), latest(directory / "clean")))
        << to_string(law.policy);
  }
}

}  // namespace
}  // namespace muster::inline v0_1
