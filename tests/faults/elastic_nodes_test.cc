// An elastic run on two machines with two workers each, whose launchers are on this machine: a
// worker, a whole machine and the chief are killed, and come again.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "muster/base/free_ports.h"
#include "tests/end_to_end/program.h"

namespace muster::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kSteps = 300;
constexpr const char* kAll = "elastic: 4 of 4 workers train from step ";

class ElasticNodesTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directory(gates_); }

  void start(int node) {
    launchers_[node] =
        std::make_unique<Program>(muster_run({fmt::format("--nodes={}/1:2", node),
                                              fmt::format("--rendezvous=127.0.0.1:{}", port_),
                                              "--workers=2", "--restart=2", "--survivor-time=2"},
                                             {binary("fault_victim"), "--model_dir=" + model_}),
                                  Variables{{"MUSTER_TRANSPORT", "tcp"},
                                            {"FAULT_GATES", gates_},
                                            {"FAULT_STEPS", std::to_string(kSteps)},
                                            {"FAULT_STEP_SECONDS", "0.001"},
                                            {"FAULT_PATIENCE", patience_},
                                            {"FAULT_AUDIT", "1"}});
  }
  Program& at(int node) { return *launchers_[node]; }
  // Both machines, which have made a step together.
  void begin() {
    for (const int node : {0, 1}) start(node);
    make_steps_until(kAll, 1);
  }
  // The chief makes a step now and then, until the launcher of machine 0 has printed this so often.
  void make_steps_until(const std::string& text, int times) {
    constexpr auto kStep = 100ms;
    constexpr auto kMost = 60s;
    const auto end = std::chrono::steady_clock::now() + kMost;
    while (count(text) < times) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << text << "\n" << output();
      ASSERT_LT(step_, kSteps - 1) << text << "\n" << output();
      write_file(gates_ + "/" + std::to_string(++step_), "");
      std::this_thread::sleep_for(kStep);
    }
  }
  void make_other_steps() {
    while (step_ < kSteps) write_file(gates_ + "/" + std::to_string(++step_), "");
  }
  int count(const std::string& text) {
    int count = 0;
    const std::string output = at(0).output();
    for (size_t at = output.find(text); at != std::string::npos; at = output.find(text, at + 1))
      ++count;
    return count;
  }
  // Both launchers end with 0 after the last step, and each example was used once per epoch.
  void expect_a_good_end() {
    make_other_steps();
    for (const int node : {0, 1}) EXPECT_EQ(at(node).wait(), 0) << output();
    EXPECT_TRUE(has_checkpoint(model_, kSteps));
    const Ran audit = run({binary("muster"), "audit", model_});
    EXPECT_EQ(audit.code, 0) << audit.output;
  }
  std::string output() {
    std::string all;
    for (const auto& launcher : launchers_) {
      if (launcher) all += "--- a launcher:\n" + launcher->output();
    }
    return all;
  }

  const TempDirectory directory_;
  const std::string model_ = directory_ / "model", gates_ = directory_ / "gates";
  const int port_ = free_port();
  std::string patience_;
  std::array<std::unique_ptr<Program>, 2> launchers_;
  int64_t step_ = 0;
};

TEST_F(ElasticNodesTest, AKilledWorkerOfAnotherMachineStartsAgainAlone) {
  begin();
  ASSERT_TRUE(at(1).signal_task("worker", 3, SIGKILL));
  make_steps_until("elastic: 3 of 4 workers train from step ", 1);
  make_steps_until(kAll, 2);
  expect_a_good_end();
  EXPECT_THAT(at(0).output(),
              AllOf(HasSubstr("worker 3: killed by SIGKILL; starting it again (1 of 2)"),
                    HasSubstr("node 1 ("), Not(HasSubstr("starting all tasks again"))));
}

TEST_F(ElasticNodesTest, AKilledMachineComesAgain) {
  begin();
  at(1).signal(SIGKILL);
  make_steps_until("elastic: 2 of 4 workers train from step ", 1);
  EXPECT_EQ(at(1).wait(), -SIGKILL);
  make_steps_until("; the run continues without it", 1);
  start(1);
  make_steps_until(kAll, 2);
  expect_a_good_end();
  EXPECT_THAT(at(0).output(),
              AllOf(HasSubstr("joins the run"), Not(HasSubstr("starting all tasks again"))));
}

// Its tasks train meanwhile. They train on, or end and start again, as it hears first.
TEST_F(ElasticNodesTest, ALauncherThatStandsStillEndsNothing) {
  begin();
  at(1).signal(SIGSTOP);
  make_steps_until("was lost: no heartbeat for 6", 1);
  at(1).signal(SIGCONT);
  make_steps_until("made: " + std::to_string(step_ + 50), 1);
  expect_a_good_end();
  EXPECT_THAT(at(0).output(),
              AllOf(Not(HasSubstr("hung")), Not(HasSubstr("starting all tasks again"))))
      << output();
}

TEST_F(ElasticNodesTest, TheRunEndsWellWithoutAMachineThatStaysAway) {
  begin();
  at(1).signal(SIGKILL);
  make_steps_until("elastic: 2 of 4 workers train from step ", 1);
  make_other_steps();
  EXPECT_EQ(at(0).wait(), 0) << output();
  EXPECT_TRUE(has_checkpoint(model_, kSteps));
}

TEST_F(ElasticNodesTest, AKilledChiefMakesAllStartAgain) {
  begin();
  ASSERT_TRUE(at(0).signal_task("worker", 0, SIGKILL));
  make_steps_until("starting all tasks again (1 of 2)", 1);
  make_steps_until(kAll, 2);
  expect_a_good_end();
}

// The others do not wait for its two workers, which leave at once.
TEST_F(ElasticNodesTest, AMachineThatIsToldToStopLeavesTheOthersAndComesAgain) {
  patience_ = "600";
  begin();
  at(1).signal(SIGTERM);
  make_steps_until("elastic: 2 of 4 workers train from step ", 1);
  EXPECT_EQ(at(1).wait(), 143) << output();
  start(1);
  make_steps_until(kAll, 2);
  expect_a_good_end();
  EXPECT_THAT(at(0).output(), HasSubstr("was told to stop: it leaves the run, which continues"));
}

}  // namespace
}  // namespace muster::testing
