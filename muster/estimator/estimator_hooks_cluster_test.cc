// Hooks, early stopping and steps that are not finite, on several workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/internal/flawed_data.h"
#include "muster/estimator/internal/scripted_model.h"
#include "muster/train/early_stopping.h"
#include "muster/train/hooks.h"
#include "tests/support/local_cluster.h"
#include "tests/support/read_trace.h"
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
  EXPECT_EQ(latest(directory / "m").global_step, 51);  // agreed with the step after the save
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

// Counts the events of one row of a trace.
int64_t count(const std::vector<testing::TraceEvent>& events, const std::string& name) {
  return std::ranges::count(events, name, &testing::TraceEvent::name);
}

TEST(ProfilerClusterTest, OneFileHasAllTasksWithTheirBuckets) {
  TempDirectory directory;
  const LocalCluster cluster(2);
  testing::run_ranks(2, [&](int rank) {
    const auto strategy = distribute::multi_worker_mirrored({.bytes_per_pack = 256});
    Estimator classifier(two_layers,
                         quiet_config(directory / "m", strategy, cluster.environment(rank)));
    classifier.train(endless,
                     {.max_steps = 13,
                      .hooks = {hooks::profiler({.every = {.steps = 8}, .steps_in_a_row = 2})}});
  });
  for (const char* name : {"m/timeline-3.json", "m/timeline-11.json"}) {
    testing::TraceRows rows = testing::read_trace(directory / name);
    EXPECT_EQ(rows.size(), 4u);
    std::vector<std::string> first;
    for (const char* task : {"worker 0", "worker 1"}) {
      const auto& steps = rows[{task, "step"}];
      for (const char* part : {"input", "forward", "backward", "reduction", "update"})
        EXPECT_EQ(count(steps, part), 2) << part;
      EXPECT_EQ(count(steps, "saving"), name == std::string("m/timeline-11.json") ? 1 : 0);
      const auto& buckets = rows[{task, "reduction"}];
      if (first.empty()) first = testing::names_of(buckets);
      EXPECT_GT(first.size(), 2 * 1u);
      EXPECT_EQ(testing::names_of(buckets), first);
      int64_t tensors = 0, bytes = 0;
      for (const auto& bucket : buckets) {
        tensors += bucket.args.at("tensors").get<int64_t>();
        bytes += bucket.args.at("bytes").get<int64_t>();
      }
      EXPECT_EQ(tensors, 2 * 4);
      EXPECT_GE(bytes, 2 * 4 * (10 * 16 + 16 + 16 * 2 + 2));
    }
  }
}

TEST(ProfilerClusterTest, TheChiefDecidesWhoeverElseHasTheHook) {
  for (const int owner : {0, 1}) {
    TempDirectory directory;
    on_two(directory / "m", two_layers, [&](Estimator& estimator, int rank) {
      TrainOptions options{.max_steps = 4};
      if (rank == owner) options.hooks = {hooks::profiler({.every = {.steps = 9}})};
      EXPECT_EQ(estimator.train(endless, options).global_step, 4);
    });
    const std::string path = directory / "m" + "/timeline-2.json";
    ASSERT_EQ(local_file_system().exists(path).value(), owner == 0);
    if (owner == 0) {
      EXPECT_EQ(testing::read_trace(path).size(), 4u);
    }
  }
}

}  // namespace
}  // namespace muster::inline v0_1
