// An elastic run of three workers, one of which is killed in each phase, or asked to stop: the
// others make all steps, and one that is started again trains with them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>

#include "muster/base/await.h"
#include "muster/base/temp_directory.h"
#include "tests/end_to_end/program.h"
#include "tests/faults/blow.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kLastStep = 12;  // of the victim

Words command(const std::string& model_dir, const Words& options) {
  return muster_run(options, {binary("fault_victim"), "--model_dir=" + model_dir});
}

// On a busy machine a worker may come when the first group has begun without it.
bool has_all_workers(const Program& program) {
  return program.output().find("elastic: 3 of 3 workers train from step 0") != std::string::npos;
}

struct Blow {
  std::string phase;
  std::string speaker;  // that says that the run is in the phase
  std::string transport;
};

class ElasticFaultsTest : public ::testing::TestWithParam<Blow> {};

TEST_P(ElasticFaultsTest, TheOthersMakeAllStepsWithoutAKilledWorker) {
  const Blow blow = GetParam();
  until_in_time([&] {
    const TempDirectory directory;
    const std::string model = directory / "model";
    Program program(command(model, {"--workers=2:3"}), {{"MUSTER_TRANSPORT", blow.transport},
                                                        {"FAULT_PHASE", blow.phase},
                                                        {"FAULT_TASK", blow.speaker}});
    program.wait_for(fmt::format("[{}] phase: {}", blow.speaker, blow.phase));
    const bool has_begun = blow.phase != "start" && blow.phase != "build";
    if (has_begun && !has_all_workers(program)) return false;
    if (!program.signal_task("worker", 1, SIGKILL)) return false;
    EXPECT_EQ(program.wait(), 0) << program.output();
    EXPECT_THAT(program.output(),
                AllOf(HasSubstr("elastic: 2 of 3 workers train from step "),
                      HasSubstr("worker 0, worker 2"),
                      HasSubstr("worker 1: killed by SIGKILL; the run continues with")))
        << blow.phase;
    EXPECT_TRUE(has_checkpoint(model, kLastStep)) << program.output();
    return true;
  });
}

INSTANTIATE_TEST_SUITE_P(
    Phases, ElasticFaultsTest,
    ::testing::Values(Blow{"start", "worker 1", "shared_memory"}, Blow{"build", "worker 1", "tcp"},
                      Blow{"step", "worker 1", "shared_memory"}, Blow{"step", "worker 1", "tcp"},
                      Blow{"save", "worker 0", "tcp"},
                      Blow{"evaluate", "worker 0", "shared_memory"},
                      Blow{"end", "worker 1", "shared_memory"}),
    [](const auto& info) { return info.param.phase + "_" + info.param.transport; });

// A run whose chief stands after step 6 until its gates are opened.
class GatedElasticTest : public ::testing::Test {
 protected:
  void start(const Words& options, Variables variables = {}, int64_t stands_at = 6) {
    variables["FAULT_GATES"] = gates_;
    variables["MUSTER_LOG_LEVEL"] = "debug";
    until_in_time([&] {
      std::filesystem::remove_all(model_);
      std::filesystem::remove_all(gates_);
      std::filesystem::create_directory(gates_);
      program_.emplace(command(model_, options), variables);
      open(1, stands_at - 1);
      program_->wait_for(fmt::format("gate: {}", stands_at));
      return has_all_workers(*program_);
    });
  }
  void open(int64_t first, int64_t last) {
    for (int64_t step = first; step <= last; ++step)
      write_file(gates_ + "/" + std::to_string(step), "");
  }
  int times(const std::string& text) const {
    int count = 0;
    const std::string output = program_->output();
    for (size_t at = output.find(text); at != std::string::npos; at = output.find(text, at + 1))
      ++count;
    return count;
  }

  // Worker 1 is killed, and the chief makes its steps slowly enough for another one to be there.
  // The run ends after `text` was printed.
  void lose_worker_and_go_on(const std::string& text = {}) {
    // On a quick machine the worker that is started again would be there before the next group.
    write_file(gates_ + "/hold", "");
    ASSERT_TRUE(program_->signal_task("worker", 1, SIGKILL));
    open(6, 7);
    program_->wait_for("elastic: 2 of 3 workers train from step ");
    program_->wait_for("gate: 8");
    let_worker_1_come();
    open(8, kLastStep - 1);
    if (!text.empty()) program_->wait_for(text);
    open(kLastStep, kLastStep);
  }
  // It is started again, and waits to join: then the chief knows of it in its next step.
  void let_worker_1_come() {
    EXPECT_TRUE(std::filesystem::remove(gates_ + "/hold"));
    await([&] {
      const std::string output = program_->output();
      const std::string starts = "[worker 1] starts";
      const size_t again = output.find(starts, output.find(starts) + 1);
      return again != std::string::npos &&
             output.find("worker 1 waits to join", again) != std::string::npos;
    });
  }
  std::string saved_line(int64_t step) const {
    return fmt::format("saved {}/model.ckpt-{}\n", model_, step);
  }

  TempDirectory directory_;
  const std::string model_ = directory_ / "model", gates_ = directory_ / "gates";
  std::optional<Program> program_;
};

// The record of used examples holds over the change, too.
TEST_F(GatedElasticTest, AWorkerThatIsStartedAgainJoins) {
  start({"--workers=2:3", "--restart=1"}, {{"FAULT_AUDIT", "1"}});
  lose_worker_and_go_on();
  EXPECT_EQ(program_->wait(), 0) << program_->output();
  EXPECT_EQ(times("elastic: 3 of 3 workers train from step "), 2) << program_->output();
  EXPECT_TRUE(has_checkpoint(model_, kLastStep));
  const Ran audit = run({binary("muster"), "audit", model_});
  EXPECT_EQ(audit.code, 0) << audit.output;
  EXPECT_THAT(audit.output, HasSubstr(fmt::format("steps 1 to {}", kLastStep)))
      << program_->output();
}

TEST_F(GatedElasticTest, AWorkerThatComesWithOtherSettingsIsRefusedAlone) {
  const std::string other = directory_ / "other";
  start({"--workers=2:3", "--restart=1"}, {{"FAULT_OTHER", other}});
  write_file(other, "");
  lose_worker_and_go_on("worker 1: exit code 2; the run continues with");
  EXPECT_EQ(program_->wait(), 0) << program_->output();
  EXPECT_THAT(program_->output(),
              AllOf(HasSubstr("seed is 3 on worker 0, worker 2; 4 on worker 1"),
                    HasSubstr("worker 1: exit code 2; the run continues with")));
  EXPECT_EQ(times("elastic: 2 of 3 workers train from step "), 2) << program_->output();
  EXPECT_TRUE(has_checkpoint(model_, kLastStep));
}

// A thread of the chief writes the checkpoint of step 8 when the group changes: the next group
// begins meanwhile, and the checkpoint is there afterwards.
constexpr int64_t kWrittenStep = 8;

TEST_F(GatedElasticTest, ASaveInFlightSurvivesTheLossOfAWorker) {
  start({"--workers=2:3"}, {{"FAULT_PHASE", "write"}, {"FAULT_TASK", "worker 0"}});
  write_file(gates_ + "/hold_save", "");
  open(6, kLastStep);
  program_->wait_for("phase: write");
  ASSERT_TRUE(program_->signal_task("worker", 1, SIGKILL));
  program_->wait_for("elastic: 2 of 3 workers train from step ");
  EXPECT_EQ(times(saved_line(kWrittenStep)), 0) << program_->output();
  EXPECT_TRUE(std::filesystem::remove(gates_ + "/hold_save"));
  EXPECT_EQ(program_->wait(), 0) << program_->output();
  EXPECT_EQ(times(saved_line(kWrittenStep)), 1) << program_->output();
  EXPECT_TRUE(has_checkpoint(model_, kWrittenStep));
  EXPECT_TRUE(has_checkpoint(model_, kLastStep));
}

TEST_F(GatedElasticTest, ASaveInFlightSurvivesAWorkerThatComes) {
  start({"--workers=2:3", "--restart=1"}, {{"FAULT_PHASE", "write"}, {"FAULT_TASK", "worker 0"}},
        /*stands_at=*/4);
  write_file(gates_ + "/hold", "");
  ASSERT_TRUE(program_->signal_task("worker", 1, SIGKILL));
  open(4, 6);
  program_->wait_for("gate: 7");
  // The chief stands here, so the step that is saved ends the group.
  let_worker_1_come();
  write_file(gates_ + "/hold_save", "");
  open(7, kLastStep);
  program_->wait_for("elastic: 3 of 3 workers train from step 8");
  EXPECT_EQ(times(saved_line(kWrittenStep)), 0) << program_->output();
  EXPECT_TRUE(std::filesystem::remove(gates_ + "/hold_save"));
  EXPECT_EQ(program_->wait(), 0) << program_->output();
  EXPECT_EQ(times(saved_line(kWrittenStep)), 1) << program_->output();
  EXPECT_TRUE(has_checkpoint(model_, kWrittenStep));
  EXPECT_TRUE(has_checkpoint(model_, kLastStep));
}

TEST_F(GatedElasticTest, AWorkerThatIsAskedToStopLeavesTheOthers) {
  start({"--workers=2:3"});
  ASSERT_TRUE(program_->signal_task("worker", 1, SIGTERM));
  open(6, kLastStep - 1);
  program_->wait_for("worker 1: exit code 143; the run continues with");
  open(kLastStep, kLastStep);
  EXPECT_EQ(program_->wait(), 0) << program_->output();
  EXPECT_THAT(program_->output(),
              AllOf(HasSubstr("[worker 1] I "), HasSubstr("stopped by SIGTERM at step "),
                    HasSubstr("worker 1: exit code 143; the run continues with"),
                    HasSubstr("elastic: 2 of 3 workers train from step ")));
  EXPECT_TRUE(has_checkpoint(model_, kLastStep));
}

TEST_F(GatedElasticTest, TwoWorkersThatAreAskedToStopAtOnceLeaveTheOther) {
  start({"--workers=1:3"}, {{"FAULT_PATIENCE", "600"}});
  for (const int index : {1, 2}) ASSERT_TRUE(program_->signal_task("worker", index, SIGTERM));
  open(6, kLastStep - 1);
  program_->wait_for("elastic: 1 of 3 workers train from step ");
  open(kLastStep, kLastStep);
  EXPECT_EQ(program_->wait(), 0) << program_->output();
  EXPECT_TRUE(has_checkpoint(model_, kLastStep));
}

TEST_F(GatedElasticTest, AWorkerThatIsAskedToStopWhileAnotherIsLostSaysThatTheRunContinues) {
  start({"--workers=1:3"}, {{"FAULT_PATIENCE", "600"}});
  ASSERT_TRUE(program_->signal_task("worker", 1, SIGTERM));
  ASSERT_TRUE(program_->signal_task("worker", 2, SIGKILL));
  program_->wait_for("stopped by SIGTERM: worker 2 was lost");
  open(6, kLastStep);
  EXPECT_EQ(program_->wait(), 0) << program_->output();
  EXPECT_THAT(program_->output(),
              AllOf(HasSubstr("the other workers of this elastic run continue without this one "
                              "while at least 1 is left"),
                    Not(HasSubstr("run the same command again"))));
}

// The same workers go on, without one of them being lost: after a cut of a worker, and of the
// chief.
TEST_F(GatedElasticTest, ATaskWhoseConnectionsAreCutStaysInTheRun) {
  start({"--workers=2:3"}, {{"FAULT_AUDIT", "1"}, {"MUSTER_TRANSPORT", "shared_memory"}});
  // A collective of one of the next two steps finds the cut. The chief may not make the first of
  // these by itself, but take it from another worker.
  int64_t step = 6;
  for (const int index : {1, 0}) {
    cut_connections(program_->task("worker", index));
    open(step, step + 1);
    step += 2;
    program_->wait_for(fmt::format("gate: {}", step));
  }
  open(step, kLastStep);
  EXPECT_EQ(program_->wait(), 0) << program_->output();
  EXPECT_THAT(program_->output(), HasSubstr("connections between tasks broke at step "));
  EXPECT_EQ(times("elastic: 3 of 3 workers train from step "), 3) << program_->output();
  EXPECT_TRUE(has_checkpoint(model_, kLastStep));
  EXPECT_EQ(run({binary("muster"), "audit", model_}).code, 0);
}

TEST_F(GatedElasticTest, ARunThatIsStoppedWhileAWorkerIsLostSavesItsSteps) {
  start({"--workers=2:3"});
  ASSERT_TRUE(program_->signal_task("worker", 1, SIGKILL));
  program_->signal(SIGTERM);
  open(6, kLastStep);
  EXPECT_EQ(program_->wait(), 143) << program_->output();
  EXPECT_TRUE(has_checkpoint(model_, 6) || has_checkpoint(model_, 7)) << program_->output();
}

TEST_F(GatedElasticTest, FewerThanTheMinimumAreEnded) {
  start({"--workers=3:3", "--survivor-time=1"});
  ASSERT_TRUE(program_->signal_task("worker", 1, SIGKILL));
  open(6, kLastStep);
  EXPECT_EQ(program_->wait(), 137) << program_->output();
  EXPECT_THAT(program_->output(), AllOf(HasSubstr("worker 1 failed: killed by SIGKILL"),
                                        HasSubstr("from memory, because a worker was lost")));
  EXPECT_TRUE(has_checkpoint(model_, 6) || has_checkpoint(model_, 7)) << program_->output();
}

// fit() of a Keras model, which counts the uses of each example.
class ElasticFitFaultsTest : public ::testing::Test {
 protected:
  void start(const Words& options, Variables variables = {}) {
    variables["FAULT_FIT"] = end_;
    until_in_time([&] {
      std::filesystem::remove_all(model_);
      program_.emplace(command(model_, options), variables);
      program_->wait_for("epoch 2/");
      return has_all_workers(*program_);
    });
  }
  std::string output() const { return program_->output(); }
  // Until the program has said it twice.
  void until_again(const std::string& text) {
    constexpr auto kMost = std::chrono::seconds(60);
    constexpr auto kLook = std::chrono::milliseconds(5);
    const auto end = std::chrono::steady_clock::now() + kMost;
    const auto twice = [&] {
      const std::string said = output();
      const size_t first = said.find(text);
      return first != std::string::npos && said.find(text, first + 1) != std::string::npos;
    };
    while (!twice() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(kLook);
    EXPECT_TRUE(twice()) << output();
  }
  // The workers train for another epoch, and end with it.
  void expect_each_example_once() {
    write_file(end_, "");
    EXPECT_EQ(program_->wait(), 0) << output();
    const auto result = nlohmann::json::parse(result_of({.output = output()}));
    const auto epochs = result.at("epochs_known").get<double>();
    EXPECT_EQ(result.at("global_step").get<double>(), 8 * epochs) << output();
    EXPECT_NEAR(result.at("least_uses").get<double>(), epochs, 0.01) << output();
    EXPECT_NEAR(result.at("most_uses").get<double>(), epochs, 0.01) << output();
    // Where no process that was left has started again.
    EXPECT_THAT(output(), ::testing::Not(HasSubstr("starting all tasks again")));
  }

  TempDirectory directory_;
  const std::string model_ = directory_ / "model", end_ = directory_ / "end";
  std::optional<Program> program_;
};

TEST_F(ElasticFitFaultsTest, AKilledWorkerComesAgain) {
  start({"--workers=2:3", "--restart=3"});
  ASSERT_TRUE(program_->signal_task("worker", 1, SIGKILL));
  program_->wait_for("elastic: 2 of 3 workers train from step ");
  program_->wait_for("worker 1: killed by SIGKILL; starting it again (1 of 3)");
  until_again("elastic: 3 of 3 workers train from step ");
  expect_each_example_once();
}

TEST_F(ElasticFitFaultsTest, TheOthersWaitForAWorkerWithoutWhichTheyAreTooFew) {
  start({"--workers=3:3", "--restart=1"});
  ASSERT_TRUE(program_->signal_task("worker", 2, SIGKILL));
  until_again("elastic: 3 of 3 workers train from step ");
  expect_each_example_once();
}

TEST_F(ElasticFitFaultsTest, AWorkerThatIsAskedToStopLeavesTheOthers) {
  start({"--workers=2:3"});
  ASSERT_TRUE(program_->signal_task("worker", 1, SIGTERM));
  program_->wait_for("elastic: 2 of 3 workers train from step ");
  expect_each_example_once();
  EXPECT_THAT(output(), AllOf(HasSubstr("stopped by SIGTERM at step "),
                              HasSubstr("worker 1: exit code 143; the run continues with")));
}

TEST_F(ElasticFitFaultsTest, TwoWorkersThatAreAskedToStopAtOnceLeaveTheOther) {
  start({"--workers=1:3"}, {{"FAULT_PATIENCE", "600"}});
  for (const int index : {1, 2}) ASSERT_TRUE(program_->signal_task("worker", index, SIGTERM));
  program_->wait_for("elastic: 1 of 3 workers train from step ");
  expect_each_example_once();
}

TEST_F(ElasticFitFaultsTest, AWorkerWhoseConnectionsAreCutStaysInTheRun) {
  start({"--workers=2:3"});
  cut_connections(program_->task("worker", 1));
  until_again("elastic: 3 of 3 workers train from step ");
  expect_each_example_once();
}

// The chief writes what it has in memory, and the same command continues there.
TEST_F(ElasticFitFaultsTest, FewerThanTheMinimumAreEndedAndContinueLater) {
  const Words options{"--workers=3:3", "--survivor-time=1"};
  until_in_time([&] {
    start(options);
    constexpr auto kIntoAnEpoch = std::chrono::milliseconds(60);  // whose last one has a backup
    std::this_thread::sleep_for(kIntoAnEpoch);
    EXPECT_TRUE(program_->signal_task("worker", 1, SIGKILL));
    EXPECT_EQ(program_->wait(), 137) << output();
    return output().find("from memory, because a worker was lost") != std::string::npos;
  });
  program_.emplace(command(model_, options), Variables{{"FAULT_FIT", end_}});
  program_->wait_for("fit continues at ");
  expect_each_example_once();
}

// A worker is struck while it stays in its part of a backup.
class ElasticFitPartsFaultsTest : public ElasticFitFaultsTest {
 protected:
  void start_and_strike(const Words& options, int worker, int signal) {
    const std::string task = fmt::format("worker {}", worker);
    start(options, {{"FAULT_PARTS", "1"}, {"FAULT_PHASE", "write"}, {"FAULT_TASK", task}});
    program_->wait_for(fmt::format("[{}] phase: write", task));
    EXPECT_TRUE(program_->signal_task("worker", worker, signal));
  }
};

TEST_F(ElasticFitPartsFaultsTest, TheBackupOfAKilledWorkerIsAbandonedAndItComesAgain) {
  start_and_strike({"--workers=2:3", "--restart=3"}, 1, SIGKILL);
  until_again("elastic: 3 of 3 workers train from step ");
  expect_each_example_once();
  EXPECT_THAT(output(), HasSubstr("is abandoned: worker 1 has not said that its part is written"));
}

TEST_F(ElasticFitPartsFaultsTest, AWorkerThatLeavesEndsItsPartFirst) {
  start_and_strike({"--workers=2:3"}, 1, SIGTERM);
  program_->wait_for("elastic: 2 of 3 workers train from step ");
  expect_each_example_once();
  EXPECT_THAT(output(), AllOf(HasSubstr("worker 1: exit code 143; the run continues with"),
                              ::testing::Not(HasSubstr("is abandoned"))));
}

TEST_F(ElasticFitPartsFaultsTest, AKilledChiefEndsTheRunAndTheNextOneContinues) {
  const Words options{"--workers=2:3"};
  start_and_strike(options, 0, SIGKILL);
  EXPECT_EQ(program_->wait(), 137) << output();
  program_.emplace(command(model_, options), Variables{{"FAULT_FIT", end_}, {"FAULT_PARTS", "1"}});
  program_->wait_for("restored ");
  expect_each_example_once();
  EXPECT_THAT(output(), HasSubstr("backup/model.ckpt-20: continuing after step 20"));
}

}  // namespace
}  // namespace muster::testing
