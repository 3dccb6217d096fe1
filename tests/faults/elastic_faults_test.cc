// An elastic run of three workers, one of which is killed in each phase, or asked to stop: the
// others make all steps, and one that is started again trains with them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include "tests/end_to_end/program.h"

namespace muster::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kLastStep = 12;  // of the victim

Words command(const std::string& model_dir, const Words& options) {
  return muster_run(options, {binary("fault_victim"), "--model_dir=" + model_dir});
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
  void start(const Words& options) {
    std::filesystem::create_directory(gates_);
    program_.emplace(command(model_, options), Variables{{"FAULT_GATES", gates_}});
    open(1, 5);
    program_->wait_for("gate: 6");
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

  TempDirectory directory_;
  const std::string model_ = directory_ / "model", gates_ = directory_ / "gates";
  std::optional<Program> program_;
};

TEST_F(GatedElasticTest, AWorkerThatIsStartedAgainJoins) {
  start({"--workers=2:3", "--restart=1"});
  ASSERT_TRUE(program_->signal_task("worker", 1, SIGKILL));
  open(6, 7);
  program_->wait_for("elastic: 2 of 3 workers train from step ");
  program_->wait_for("gate: 8");
  // The chief looks for newcomers in each step; the gates are for the time until one is there.
  constexpr auto kStart = 300ms;
  for (int64_t step = 8; step <= kLastStep; ++step) {
    std::this_thread::sleep_for(kStart);
    open(step, step);
  }
  EXPECT_EQ(program_->wait(), 0) << program_->output();
  EXPECT_EQ(times("elastic: 3 of 3 workers train from step "), 2) << program_->output();
  EXPECT_TRUE(has_checkpoint(model_, kLastStep));
}

TEST_F(GatedElasticTest, AWorkerThatIsAskedToStopLeavesTheOthers) {
  start({"--workers=2:3"});
  ASSERT_TRUE(program_->signal_task("worker", 1, SIGTERM));
  std::this_thread::sleep_for(100ms);
  open(6, kLastStep);
  EXPECT_EQ(program_->wait(), 0) << program_->output();
  EXPECT_THAT(program_->output(),
              AllOf(HasSubstr("[worker 1] I "), HasSubstr("stopped by SIGTERM at step "),
                    HasSubstr("worker 1: exit code 143; the run continues with"),
                    HasSubstr("elastic: 2 of 3 workers train from step ")));
  EXPECT_TRUE(has_checkpoint(model_, kLastStep));
}

TEST_F(GatedElasticTest, FewerThanTheMinimumAreEnded) {
  start({"--workers=3:3", "--survivor-time=1"});
  ASSERT_TRUE(program_->signal_task("worker", 1, SIGKILL));
  open(6, kLastStep);
  EXPECT_EQ(program_->wait(), 137) << program_->output();
  EXPECT_THAT(program_->output(), HasSubstr("worker 1 failed: killed by SIGKILL"));
}

}  // namespace
}  // namespace muster::testing
