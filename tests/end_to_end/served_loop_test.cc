// A loop written by hand on parameter servers, as processes: some of them die or are told to stop,
// and started again they continue.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "muster/base/await.h"
#include "tests/end_to_end/program.h"
#include "tests/end_to_end/served_tasks.h"

namespace muster::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

Words custom_loop(const std::string& model_dir, int epochs) {
  return {binary("custom_loop"), "--strategy=parameter_server", "--model_dir=" + model_dir,
          "--epochs=" + std::to_string(epochs)};
}

class ServedLoopRun : public ServedTasks {
 public:
  ServedLoopRun(int workers, int servers, int epochs, bool late = false)
      : ServedTasks(
            workers, servers,
            [&](const std::string& model_dir) { return custom_loop(model_dir, epochs); }, late) {}

  // Waits until the newest checkpoint is that of this step.
  void wait_for_checkpoint(int64_t step) {
    const std::string name = fmt::format("model.ckpt-{}\"", step);
    ASSERT_TRUE(comes_true([&] {
      return has_checkpoint(model_dir(), step) &&
             read_file(model_dir() + "/checkpoint").find(name) != std::string::npos;
    })) << task("chief0").output();
  }
};

constexpr int kNeverEnding = 1000000;

// Of a chief and a worker: 500 points each, in batches of 50, are 20 steps an epoch.
void expect_result(const std::string& output, int epochs) {
  const auto result = nlohmann::json::parse(result_of({.output = output}));
  EXPECT_EQ(result.at("global_step"), epochs * 20) << output;
  EXPECT_LT(result.at("loss"), 0.1) << output;
}

TEST(ServedLoops, AllEndWellWithTheStepsOfTheirData) {
  ServedLoopRun run(/*workers=*/1, /*servers=*/2, /*epochs=*/20);
  run.expect_codes();
  expect_result(run.task("chief0").output(), 20);
  EXPECT_THAT(run.task("ps1").output(), HasSubstr("the run has ended"));
}

TEST(ServedLoops, AWorkerThatDiesComesBackToItsOwnData) {
  ServedLoopRun run(/*workers=*/2, /*servers=*/1, kNeverEnding);
  run.task("worker1").wait_for("joined the run at step");
  EXPECT_TRUE(run.replace("worker", 1));
  run.task("worker1").wait_for("joined the run at step");
  EXPECT_GT(number_behind(run.task("worker1").output(), "joined the run at step "), 0);
  run.stop();
  EXPECT_THAT(run.task("ps0").output(), HasSubstr("worker 1 was lost"));
}

// One command, which restarts killed tasks and tasks that ask for it: all return to the last
// checkpoint, and still make the steps of their data.
TEST(ServedLoops, AServerThatDiesTakesAllBackToTheLastCheckpoint) {
  static constexpr int kEpochs = 400;
  until_in_time([] {
    const TempDirectory directory;
    Program program(muster_run({"--chief", "--workers=1", "--ps=2", "--restart=2"},
                               custom_loop(directory / "model", kEpochs)));
    program.wait_for("epoch 20 ");
    // A chief after its data has no batch of which servers that lost everything could build.
    if (program.output().find(fmt::format("epoch {} ", kEpochs)) != std::string::npos) return false;
    if (!program.signal_task("ps", 1, SIGKILL)) return false;
    if (!program.says("restored ")) return false;
    EXPECT_EQ(program.wait(100s), 0) << program.output();
    expect_result(program.output(), kEpochs);
    return true;
  });
}

TEST(ServedLoops, AChiefThatDiesGoesOnFromWhatTheServersHave) {
  ServedLoopRun run(/*workers=*/1, /*servers=*/1, kNeverEnding);
  run.task("chief0").wait_for("epoch 10 ");
  EXPECT_TRUE(run.replace("chief", 0));
  run.task("chief0").wait_for("from the state that the parameter servers hold");
  run.task("chief0").wait_for("epoch ");
  EXPECT_THAT(run.task("chief0").output(), Not(HasSubstr("epoch  1 ")));
  run.stop();
}

// The chief is through, and the worker has not begun: what is its own is trained on anyway.
TEST(ServedLoops, AChiefBehindItsLastBatchThatLosesAServerBeginsAgainForTheOthers) {
  constexpr int kEpochs = 20;
  ServedLoopRun run(/*workers=*/1, /*servers=*/1, kEpochs, /*late=*/true);
  run.wait_for_checkpoint(kEpochs * 10);
  run.replace_server_and_chief();
  run.start("worker", 0);
  run.expect_codes();
  expect_result(run.task("chief0").output(), kEpochs);
  EXPECT_TRUE(has_checkpoint(run.model_dir(), kEpochs * 20));
}

TEST(ServedLoops, AChiefKilledBehindItsLastBatchSavesWhatTheOthersMake) {
  constexpr int kEpochs = 20;
  ServedLoopRun run(/*workers=*/1, /*servers=*/1, kEpochs, /*late=*/true);
  run.wait_for_checkpoint(kEpochs * 10);
  EXPECT_TRUE(run.replace("chief", 0));
  run.task("chief0").wait_for("from the state that the parameter servers hold");
  run.start("worker", 0);
  run.expect_codes();
  expect_result(run.task("chief0").output(), kEpochs);
  EXPECT_TRUE(has_checkpoint(run.model_dir(), kEpochs * 20));
}

TEST(ServedLoops, AChiefThatIsToldToStopEndsTheRun) {
  ServedLoopRun run(/*workers=*/1, /*servers=*/1, kNeverEnding);
  run.task("chief0").wait_for("epoch 10 ");
  run.task("worker0").wait_for("joined the run at step");
  run.task("chief0").signal(SIGTERM);
  // The worker asks to be started again, as with every strategy whose loop is ended by another.
  run.expect_codes({{"chief0", 143}, {"worker0", 138}});
  EXPECT_THAT(run.task("chief0").output(), HasSubstr("after saving step"));
  EXPECT_THAT(run.task("worker0").output(), HasSubstr("the chief has ended the run"));
}

}  // namespace
}  // namespace muster::testing
