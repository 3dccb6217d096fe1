// Workers that write parts of one checkpoint, and are struck in the middle of a part: the
// checkpoints that were committed before are whole, and the next run leaves no other files.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <set>
#include <string>

#include "tests/end_to_end/program.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Of the victim. Each task that is named in FAULT_TASK stays in its part of this checkpoint.
constexpr int64_t kWrittenStep = 8, kLastStep = 12;

class PartsFaultsTest : public ::testing::Test {
 protected:
  Words command(const std::string& workers) const {
    return muster_run({"--workers=" + workers}, {binary("fault_victim"), "--model_dir=" + model_});
  }
  static Variables stays(const std::string& task) {
    return {{"FAULT_PARTS", "1"}, {"FAULT_PHASE", "write"}, {"FAULT_TASK", task}};
  }
  // The files of a step, without those of saves that were not committed.
  std::set<std::string> files_of(int64_t step) const {
    std::set<std::string> names;
    for (const auto& file : std::filesystem::directory_iterator(model_)) {
      const std::string name = file.path().filename();
      if (name.find(fmt::format("model.ckpt-{}.", step)) == 0) names.insert(name);
    }
    return names;
  }
  int staged_files() const {
    int count = 0;
    for (const auto& file : std::filesystem::directory_iterator(model_))
      count += file.path().string().find(".staging-") != std::string::npos;
    return count;
  }
  // The run begins anew in an empty directory until `strike` is in time.
  void strike(const std::string& workers, const std::string& stays_in_part,
              const std::function<void(Program&)>& strike_and_check) {
    until_in_time([&] {
      std::filesystem::remove_all(model_);
      Program program(command(workers), stays(stays_in_part));
      program.wait_for(fmt::format("[{}] phase: write", stays_in_part));
      const bool elastic = workers.find(':') != std::string::npos;
      if (elastic && program.output().find("elastic: 3 of 3 workers") == std::string::npos)
        return false;
      strike_and_check(program);
      return true;
    });
  }
  // Every checkpoint can be read, and the next run of the same command has no leftovers.
  void expect_whole_and_go_on() {
    const Ran inspected = run({binary("muster"), "inspect", "checkpoint", model_});
    EXPECT_EQ(inspected.code, 0) << inspected.output;
    EXPECT_TRUE(has_checkpoint(model_, 4));
    const Ran again = run(command("2"), {{"FAULT_PARTS", "1"}});
    EXPECT_EQ(again.code, 0) << again.output;
    EXPECT_TRUE(has_checkpoint(model_, kLastStep));
    EXPECT_EQ(files_of(kWrittenStep).size(), 3U) << again.output;  // its own and two parts
    EXPECT_EQ(staged_files(), 0);
  }

  TempDirectory directory_;
  const std::string model_ = directory_ / "model";
};

TEST_F(PartsFaultsTest, AWorkerThatIsKilledInItsPartEndsTheRunAndNoCheckpoint) {
  strike("2", "worker 1", [&](Program& program) {
    EXPECT_TRUE(program.signal_task("worker", 1, SIGKILL));
    EXPECT_EQ(program.wait(), 137) << program.output();
    EXPECT_THAT(program.output(),
                HasSubstr("the checkpoint of step 8 is abandoned: worker 1 has not said"));
  });
  EXPECT_FALSE(has_checkpoint(model_, kWrittenStep));
  expect_whole_and_go_on();
}

TEST_F(PartsFaultsTest, AChiefThatIsKilledInItsPartEndsTheRunAndNoCheckpoint) {
  strike("2", "worker 0", [&](Program& program) {
    EXPECT_TRUE(program.signal_task("worker", 0, SIGKILL));
    EXPECT_EQ(program.wait(), 137) << program.output();
  });
  EXPECT_FALSE(has_checkpoint(model_, kWrittenStep));
  expect_whole_and_go_on();
}

TEST_F(PartsFaultsTest, AnElasticRunAbandonsTheCheckpointOfALostWorkerAndGoesOn) {
  strike("2:3", "worker 1", [&](Program& program) {
    EXPECT_TRUE(program.signal_task("worker", 1, SIGKILL));
    EXPECT_EQ(program.wait(), 0) << program.output();
    EXPECT_THAT(program.output(),
                AllOf(HasSubstr("the checkpoint of step 8 is abandoned: worker 1 has not said"),
                      HasSubstr("elastic: 2 of 3 workers train from step ")));
  });
  EXPECT_FALSE(has_checkpoint(model_, kWrittenStep));
  EXPECT_TRUE(has_checkpoint(model_, kLastStep));
  EXPECT_EQ(files_of(kWrittenStep).size(), 0U);
}

TEST_F(PartsFaultsTest, AWorkerThatLeavesAnElasticRunEndsItsPartFirst) {
  strike("2:3", "worker 1", [&](Program& program) {
    EXPECT_TRUE(program.signal_task("worker", 1, SIGTERM));
    EXPECT_EQ(program.wait(), 0) << program.output();
    EXPECT_THAT(program.output(), AllOf(HasSubstr("worker 1: exit code 143"),
                                        HasSubstr("elastic: 2 of 3 workers train from step "),
                                        Not(HasSubstr("abandoned"))));
  });
  EXPECT_EQ(files_of(kWrittenStep).size(), 4U);
  EXPECT_TRUE(has_checkpoint(model_, kLastStep));
}

TEST_F(PartsFaultsTest, ARunThatIsStoppedEndsItsPartsAndSaves) {
  strike("2", "worker 1", [&](Program& program) {
    program.signal(SIGTERM);
    EXPECT_EQ(program.wait(), 143) << program.output();
    EXPECT_THAT(program.output(),
                AllOf(HasSubstr("after saving step "), Not(HasSubstr("abandoned"))));
  });
  EXPECT_EQ(files_of(kWrittenStep).size(), 3U);
  expect_whole_and_go_on();
}

}  // namespace
}  // namespace muster::testing
