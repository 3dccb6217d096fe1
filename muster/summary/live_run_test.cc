#include "muster/summary/live_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/summary/testing/live_tasks.h"

namespace muster::inline v0_1::summary {
namespace {

using plan::Activity;
using testing::HasSubstr;

LiveStatus task(int64_t process, float input, double written) {
  return live_task(process, 3, input, written);
}

TEST(LiveRun, NamesTheStragglerAndTheRates) {
  const LiveRun run = live_run({task(0, .01F, 99), task(1, .09F, 98.5)}, 100);
  ASSERT_EQ(run.tasks.size(), 2u);
  EXPECT_EQ(run.missing, 1);
  EXPECT_EQ(run.tasks[1].age, 1.5);
  EXPECT_EQ(run.tasks[1].state, LiveState::kRunning);
  ASSERT_EQ(run.replicas.size(), 2u);
  EXPECT_EQ(run.replicas[1].task, 1u);
  EXPECT_NEAR(run.replicas[1].rate, 10, 1e-4);
  EXPECT_NEAR(run.replicas[1].now.seconds, 2.0, 1e-9);
  EXPECT_NEAR(run.replicas[1].mean.of(Activity::kInput), .09, 1e-6);
  ASSERT_TRUE(run.straggler);
  EXPECT_EQ(run.straggler->task, 1u);
  EXPECT_EQ(run.straggler->where, Activity::kInput);
  EXPECT_THAT(run.straggler_text, HasSubstr("worker 1 takes 9.0 times as long as the others"));
}

TEST(LiveRun, TheSilentAndTheEndedAreNoStragglers) {
  LiveRun run = live_run({task(0, .01F, 99), task(1, .09F, 94.9)}, 100);
  EXPECT_EQ(run.tasks[1].state, LiveState::kSilent);
  EXPECT_FALSE(run.straggler);
  LiveStatus ended = task(1, .09F, 99);
  for (const auto& [word, state] :
       {std::pair("ended", LiveState::kEnded), std::pair("stopped", LiveState::kStopped),
        std::pair("failed", LiveState::kFailed)}) {
    ended.end = word;
    run = live_run({task(0, .01F, 99), ended}, 2000);
    EXPECT_EQ(run.tasks[1].state, state);
    EXPECT_EQ(run.tasks[0].state, LiveState::kSilent);
    EXPECT_FALSE(run.straggler);
    EXPECT_EQ(to_string(state), word);
  }
}

TEST(LiveRun, NothingOfNothing) {
  const LiveRun run = live_run({}, 100);
  EXPECT_TRUE(run.tasks.empty());
  EXPECT_EQ(run.missing, 0);
  // A clock that is behind another machine's.
  EXPECT_EQ(live_run({task(0, .01F, 105)}, 100).tasks[0].age, 0);
}

// Servers and evaluators are shown, and are no part of what makes others wait.
TEST(LiveRun, TasksThatDoNotTrainDelayNobody) {
  LiveStatus server = task(-1, .1F, 99), evaluator = task(-1, .1F, 99);
  server.task = "ps 0";
  evaluator.task = evaluator.replicas[0].task = "evaluator";
  for (plan::StepSeconds& batch : evaluator.replicas[0].last) batch.step = 500;
  const LiveRun run = live_run({task(0, .01F, 99), task(1, .01F, 99), server, evaluator}, 100);
  EXPECT_FALSE(run.straggler) << run.straggler_text;
  EXPECT_EQ(run.missing, 1);                    // of three workers
  EXPECT_NEAR(run.replicas[3].rate, 10, 1e-4);  // batches
}

TEST(LiveRun, StepsThatAreMadeTogetherAllCount) {
  LiveStatus trees = task(0, .1F, 99);
  for (plan::StepSeconds& tree : trees.replicas[0].last) tree.step *= 6;
  EXPECT_NEAR(live_run({trees}, 100).replicas[0].rate, 60, 1e-3);
}

}  // namespace
}  // namespace muster::inline v0_1::summary
