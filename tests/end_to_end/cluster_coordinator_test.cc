// A chief that schedules calls on workers, as processes: some of them die, stand still or are told
// to stop, and the calls are made anyway.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "tests/end_to_end/program.h"
#include "tests/end_to_end/served_tasks.h"

namespace muster::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kStepsPerEpoch = 32;  // 2000 images, in batches of 64

// scheduled_digits on digits() as the tasks of one cluster.
class ScheduledRun : public ServedTasks {
 public:
  ScheduledRun(int workers, int epochs)
      : ServedTasks(workers, /*servers=*/1, [&](const std::string& model_dir) {
          return Words{binary("scheduled_digits"), "--data_dir=" + digits(),
                       "--model_dir=" + model_dir, "--epochs=" + std::to_string(epochs)};
        }) {}

  // What the chief says at its end.
  nlohmann::json result() {
    return nlohmann::json::parse(result_of({.output = task("chief0").output()}));
  }
};

constexpr int kMakeSeveral = 40;  // epochs: long enough for a worker to come back
constexpr int kNeverEnding = 100000;

TEST(ClusterCoordinator, ARunOfThemAllMakesTheStepsThatWereScheduled) {
  ScheduledRun run(/*workers=*/2, /*epochs=*/3);
  run.expect_codes();
  EXPECT_EQ(run.result().at("global_step"), 3 * kStepsPerEpoch);
  EXPECT_GT(run.result().at("accuracy"), 0.8);
  EXPECT_THAT(run.task("ps0").output(), HasSubstr("the run has ended"));
}

// The cluster as one command, which starts a worker again that is killed.
TEST(ClusterCoordinator, ARunOnThisMachineStartsAKilledWorkerAgain) {
  until_in_time([] {
    const TempDirectory directory;
    Program program(muster_run(
        {"--chief", "--workers=2", "--ps=1", "--restart=2"},
        {binary("scheduled_digits"), "--data_dir=" + digits(),
         "--model_dir=" + (directory / "model"), "--epochs=" + std::to_string(kMakeSeveral)}));
    if (!program.says("worker 1 runs calls for the chief, from step")) return false;
    program.wait_for("epoch 2");
    if (!program.signal_task("worker", 1, SIGKILL)) return false;
    if (!program.says("worker 1 was lost")) return false;
    EXPECT_EQ(program.wait(100s), 0) << program.output();
    if (program.output().find("worker 1 made ") == std::string::npos) return false;
    EXPECT_GT(number_behind(program.output(), "worker 1 made "), 0) << program.output();
    return true;
  });
}

TEST(ClusterCoordinator, WhatAKilledWorkerHadIsMadeByOthersAndItTakesPartAgain) {
  until_in_time([] {
    ScheduledRun run(/*workers=*/2, kMakeSeveral);
    if (!run.task("worker1").says("runs calls for the chief")) return false;
    run.task("chief0").wait_for("epoch 2");
    if (!run.replace("worker", 1)) return false;
    if (!run.task("chief0").says("worker 1 was lost")) return false;
    if (!run.task("worker1").says("runs calls for the chief")) return false;
    run.expect_codes();
    // A step that counted just before its worker was lost is made once more.
    const int asked = kMakeSeveral * kStepsPerEpoch;
    EXPECT_GE(run.result().at("global_step"), asked);
    EXPECT_LE(run.result().at("global_step"), asked + 1);
    EXPECT_GT(number_behind(run.task("worker1").output(), "worker 1 made "), 0);
    return true;
  });
}

TEST(ClusterCoordinator, AWorkerThatStandsStillLosesItsCallAndJoinsAgain) {
  ScheduledRun run(/*workers=*/2, kNeverEnding);
  run.task("worker1").wait_for("runs calls for the chief");
  run.task("chief0").wait_for("epoch 1");
  run.task("worker1").signal(SIGSTOP);
  run.task("chief0").wait_for("no heartbeat for", 30s);
  run.task("worker1").signal(SIGCONT);
  run.task("worker1").wait_for("will rejoin the run");
  run.stop();
}

TEST(ClusterCoordinator, AServerThatDiesEndsTheChiefWhichContinuesFromItsCheckpoint) {
  ScheduledRun run(/*workers=*/1, kNeverEnding);
  run.task("chief0").wait_for("epoch 2");
  run.replace_server_and_chief();
  run.task("chief0").wait_for("restored ");
  run.task("chief0").wait_for("epoch ");
  EXPECT_THAT(run.task("worker0").output(), HasSubstr("will rejoin the run"));
  run.stop();
}

// The chief then ends as where the server dies.
TEST(ClusterCoordinator, AServerThatIsToldToStopLeavesWhenTheChiefHasSaved) {
  ScheduledRun run(/*workers=*/1, kNeverEnding);
  run.task("chief0").wait_for("epoch 2");
  run.task("ps0").signal(SIGTERM);
  EXPECT_EQ(run.task("ps0").wait(), 143) << run.task("ps0").output();
  EXPECT_THAT(run.task("ps0").output(), HasSubstr("ps 0 has to stop, and the chief has saved"));
  EXPECT_EQ(run.task("chief0").wait(), 138) << run.task("chief0").output();
  const std::string output = run.task("chief0").output(), saved = "saved " + run.model_dir();
  const std::string last = output.substr(output.rfind(saved) + 6);
  run.start("ps", 0);
  run.start("chief", 0);
  run.task("chief0").wait_for("restored " + last.substr(0, last.find('\n')));
  run.task("chief0").wait_for("epoch ");
  run.stop();
}

TEST(ClusterCoordinator, AChiefThatDiesGoesOnFromWhatTheServersHave) {
  ScheduledRun run(/*workers=*/1, kNeverEnding);
  run.task("chief0").wait_for("epoch 1");
  EXPECT_TRUE(run.replace("chief", 0));
  run.task("chief0").wait_for("from the state that the parameter servers hold");
  run.task("chief0").wait_for("epoch ");
  EXPECT_THAT(run.task("chief0").output(), Not(HasSubstr("epoch 1 ")));
  run.stop();
}

TEST(ClusterCoordinator, AWorkerThatIsToldToStopLeavesItsCallToOthers) {
  until_in_time([] {
    ScheduledRun run(/*workers=*/2, kMakeSeveral);
    if (!run.task("worker1").says("runs calls for the chief")) return false;
    run.task("chief0").wait_for("epoch 1");
    run.task("worker1").signal(SIGTERM);
    if (run.task("worker1").wait() == 0) return false;
    run.expect_codes({{"worker1", 143}});
    EXPECT_THAT(run.task("chief0").output(), Not(HasSubstr("worker 1 was lost")));
    EXPECT_EQ(run.result().at("global_step"), kMakeSeveral * kStepsPerEpoch);
    return true;
  });
}

TEST(ClusterCoordinator, AChiefThatIsToldToStopSavesAndEndsTheRun) {
  ScheduledRun run(/*workers=*/1, kNeverEnding);
  run.task("chief0").wait_for("epoch 1");
  run.task("chief0").signal(SIGTERM);
  run.expect_codes({{"chief0", 143}});
  EXPECT_THAT(run.task("chief0").output(), HasSubstr("after saving step"));
}

}  // namespace
}  // namespace muster::testing
