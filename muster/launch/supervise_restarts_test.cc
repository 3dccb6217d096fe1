// Tasks that are started again, and those that a run continues without.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "muster/launch/internal/supervise_testing.h"
#include "muster/launch/supervise.h"

namespace muster::inline v0_1::launch {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

using SuperviseRestartsTest = SuperviseTest;

// A run of a chief, a worker that may be lost, and a server.
TEST_F(SuperviseRestartsTest, WhatWasKilledIsStartedAgainByItself) {
  std::vector<ProcessSpec> processes = {
      process("chief 0", "wait_for second; echo done"),
      process("ps 0", "if [ -e first ]; then touch second; exit 0; fi; touch first; kill -9 $$")};
  processes[1].restarts = 1;
  EXPECT_EQ(supervise_here(processes, {}).exit_code, 0);
  EXPECT_THAT(read("err"), HasSubstr("starting it again (1 of 1)"));
  EXPECT_THAT(read("out"), HasSubstr("[chief 0] done\n"));
}

// A shell that starts the program ends with 137 where the program was killed.
TEST_F(SuperviseRestartsTest, WhatWasKilledInsideAShellIsStartedAgainByItself) {
  std::vector<ProcessSpec> processes = {
      process("chief 0", "wait_for second; echo done"),
      process("worker 0", "if [ -e first ]; then touch second; exit 0; fi; touch first; exit 137")};
  processes[1].restarts = 1;
  processes[1].may_be_lost = true;
  EXPECT_EQ(supervise_here(processes, {}).exit_code, 0);
  EXPECT_THAT(read("err"), HasSubstr("exit code 137"));
  EXPECT_THAT(read("err"), HasSubstr("starting it again (1 of 1)"));
}

TEST_F(SuperviseRestartsTest, WithoutAWorkerThatWasKilledInsideAShellTheOthersGoOn) {
  std::vector<ProcessSpec> processes = {process("chief 0", "wait_for_end dead; echo done"),
                                        process("worker 0", "as dead; exit 137")};
  processes[1].may_be_lost = processes[1].spared = true;
  EXPECT_EQ(supervise_here(processes, {}).exit_code, 0);
  EXPECT_THAT(read("err"), HasSubstr("the run continues with chief 0"));
}

TEST_F(SuperviseRestartsTest, WhatDiesTooOftenEndsTheRun) {
  std::vector<ProcessSpec> processes = {
      process("chief 0", "for i in {1..3000}; do sleep 0.01; done"),
      process("ps 0", "echo begun; exit 138")};
  processes[1].restarts = 2;
  const Outcome outcome =
      supervise_here(processes, {.survivor_time = milliseconds(50), .grace = seconds(20)});
  EXPECT_EQ(outcome.exit_code, 138);
  EXPECT_EQ(outcome.root_cause, 1u);
  EXPECT_THAT(read("err"), HasSubstr("starting it again (2 of 2)"));
}

// As where the program is replaced during a run.
TEST_F(SuperviseRestartsTest, WithoutAWorkerThatCannotBeStartedAgainTheOthersGoOn) {
  const std::string program = folder_ + "/program";
  ASSERT_EQ(symlink("/bin/bash", program.c_str()), 0);
  std::vector<ProcessSpec> processes = {process("chief 0", "wait_for_end dead; echo done"),
                                        process("worker 0", "as dead; rm program; kill -9 $$")};
  processes[1].argv.front() = program;
  processes[1].may_be_lost = processes[1].spared = true;
  processes[1].restarts = 2;
  EXPECT_EQ(supervise_here(processes, {}).exit_code, 0);
  EXPECT_THAT(read("out"), HasSubstr("[chief 0] done\n"));
  EXPECT_THAT(read("err"), AllOf(HasSubstr("it cannot be started again: cannot start"),
                                 HasSubstr("the run continues with chief 0")));
}

TEST_F(SuperviseRestartsTest, WithoutAWorkerThatMayBeLostTheOthersGoOn) {
  std::vector<ProcessSpec> processes = {process("chief 0", "wait_for_end dead; echo done"),
                                        process("worker 0", "as dead; kill -9 $$")};
  processes[1].may_be_lost = true;
  EXPECT_EQ(supervise_here(processes, {}).exit_code, 137);
  EXPECT_THAT(read("out"), HasSubstr("[chief 0] done\n"));
  EXPECT_THAT(read("err"), HasSubstr("the run continues with chief 0"));
  // A mistake of the program is one of all of them.
  processes[1] = process("worker 0", "exit 2");
  processes[1].may_be_lost = true;
  processes[0] = process("chief 0", "for i in {1..3000}; do sleep 0.01; done");
  EXPECT_EQ(supervise_here(processes, {.survivor_time = milliseconds(50)}).exit_code, 2);
}

TEST_F(SuperviseRestartsTest, WhoIsStartedAgainWhenTheRunIsOverIsNoFailure) {
  for (const std::string again : {"for i in {1..3000}; do sleep 0.01; done", "exit 138"}) {
    for (const char* name : {"/dead", "/chief"}) std::filesystem::remove(folder_ + name);
    std::vector<ProcessSpec> processes = {
        process("chief 0", "as chief; wait_for dead"),
        process("worker 0", "if [ -e dead ]; then wait_for_end chief; " + again +
                                "; fi; wait_for chief; touch dead; kill -9 $$")};
    processes[1].may_be_lost = true;
    processes[1].restarts = 5;
    EXPECT_EQ(supervise_here(processes, {.survivor_time = milliseconds(400)}).exit_code, 0);
    EXPECT_THAT(read("err"), AllOf(HasSubstr("(1 of 5)"), Not(HasSubstr("(3 of 5)"))));
  }
}

// One notices by itself that nobody is there, the other has to be stopped.
TEST_F(SuperviseRestartsTest, TwoThatAreStartedAgainWhenTheRunIsOverAreNoFailure) {
  std::vector<ProcessSpec> processes = {
      process("chief 0", "as chief; wait_for again0; wait_for again1")};
  const std::vector<std::string> again = {"sleep 0.1; exit 138",
                                          "for i in {1..3000}; do sleep 0.01; done"};
  for (int worker = 0; worker < 2; ++worker) {
    const std::string number = std::to_string(worker);
    processes.push_back(process("worker " + number,
                                "if [ -e dead" + number + " ]; then touch again" + number +
                                    "; wait_for_end chief; " + again.at(worker) +
                                    "; fi; wait_for chief; touch dead" + number + "; kill -9 $$"));
    processes.back().may_be_lost = true;
    processes.back().restarts = 5;
  }
  EXPECT_EQ(supervise_here(processes, {.survivor_time = milliseconds(600)}).exit_code, 0);
}

// The chief has ended the run, and the server was killed before it had ended itself.
TEST_F(SuperviseRestartsTest, AServerThatIsStartedAgainWhenTheRunIsOverIsNoFailure) {
  std::vector<ProcessSpec> processes = {
      process("chief 0", "wait_for dead"), process("worker 0", "wait_for dead"),
      process("ps 0",
              "if [ -e dead ]; then for i in {1..3000}; do sleep 0.01; done; fi; "
              "touch dead; kill -9 $$")};
  processes[2].serves = true;
  processes[2].restarts = 5;
  // Nothing is saved any more: it does not get the time of a survivor.
  EXPECT_EQ(supervise_here(processes, {.survivor_time = std::chrono::seconds(60)}).exit_code, 0);
  EXPECT_THAT(read("err"), HasSubstr("ps 0 was restarted, but the run has ended without it"));
}

// One that was started again while the chief trains is wanted.
TEST_F(SuperviseRestartsTest, AServerThatIsStartedAgainWhileTheChiefRunsStays) {
  std::vector<ProcessSpec> processes = {
      // Longer than the time after which the server would be stopped.
      process("chief 0", "wait_for second; sleep 0.5; touch end; wait_for served"),
      process("worker 0", "exit 0"),
      process("ps 0",
              "if [ -e first ]; then touch second; wait_for end; echo served; touch served; "
              "exit 0; fi; touch first; kill -9 $$")};
  processes[2].serves = true;
  processes[2].restarts = 1;
  EXPECT_EQ(supervise_here(processes, {.survivor_time = milliseconds(100)}).exit_code, 0);
  EXPECT_THAT(read("out"), HasSubstr("[ps 0] served\n"));
}

// A worker that has left an elastic run takes longer to end than the run itself.
TEST_F(SuperviseRestartsTest, AWorkerThatLeftEndsAfterTheChiefAndIsNoFailure) {
  std::vector<ProcessSpec> processes = {
      process("worker 0", "as chief; exit 0"),
      process("worker 1", "as left; wait_for_end chief; sleep 0.3; exit 143"),
      process("worker 2", "wait_for_end left; exit 0")};
  for (ProcessSpec& each : processes) each.may_be_lost = each.spared = true;
  const Outcome outcome =
      supervise_here(processes, {.survivor_time = std::chrono::seconds(60), .min_tasks = 2});
  EXPECT_EQ(outcome.exit_code, 0) << read("err");
}

// The same of a worker that the others have refused.
TEST_F(SuperviseRestartsTest, ARefusedWorkerThatEndsLastIsNoFailure) {
  std::vector<ProcessSpec> processes = {
      process("worker 0", "as chief; wait_for again; exit 0"),
      process("worker 1",
              "if [ -e dead ]; then touch again; wait_for_end chief; sleep 0.3; exit 2; fi; "
              "wait_for chief; touch dead; kill -9 $$")};
  processes[1].may_be_lost = processes[1].spared = true;
  processes[1].restarts = 1;
  const Outcome outcome =
      supervise_here(processes, {.survivor_time = std::chrono::seconds(60), .min_tasks = 1});
  EXPECT_EQ(outcome.exit_code, 0) << read("err");
}

// On one of several machines, which share a budget.
TEST_F(SuperviseRestartsTest, ALostTaskAsksTheOtherMachinesBeforeItStartsAgain) {
  for (const int answer : {1, 0}) {
    std::filesystem::remove(folder_ + "/dead");
    std::filesystem::remove(folder_ + "/again");
    std::vector<ProcessSpec> processes = {
        process("worker 2", "wait_for answered; exit 0"),
        process("worker 3",
                "if [ -e dead ]; then touch again; exit 0; fi; touch dead; kill -9 $$")};
    for (ProcessSpec& one : processes) {
      one.may_be_lost = one.spared = true;
      one.restarts = 1;
    }
    std::vector<std::string> asked;
    int left = 0;
    const auto others = [&](const GroupState& own) -> OtherGroups {
      left = *own.left;
      if (!own.asks.empty()) asked = own.asks;
      if (own.answered > 0) std::ofstream(folder_ + "/answered");
      return asked.empty() ? OtherGroups{} : OtherGroups{.answers = {answer}};
    };
    const Outcome outcome = supervise_here(processes, {.others = others, .asks_others = true});
    EXPECT_EQ(outcome.exit_code, 0) << read("err");
    EXPECT_EQ(asked, std::vector<std::string>{"worker 3: killed by SIGKILL"});
    EXPECT_EQ(std::filesystem::exists(folder_ + "/again"), answer == 1);
    EXPECT_EQ(left, answer == 1 ? 2 : 1);
    std::filesystem::remove(folder_ + "/answered");
  }
}

TEST_F(SuperviseRestartsTest, AMachineThatHasLostAllItsTasksIsNoSuccess) {
  std::vector<ProcessSpec> processes = {process("worker 2", "kill -9 $$")};
  processes[0].may_be_lost = processes[0].spared = true;
  for (const bool too_few : {false, true}) {
    const auto others = [&](const GroupState& own) -> OtherGroups {
      if (too_few && *own.left == 0) return {.failed = "fewer than 2 are left", .too_few = true};
      return {};
    };
    const Outcome outcome = supervise_here(processes, {.others = others, .asks_others = true});
    EXPECT_EQ(outcome.exit_code, 137);
    EXPECT_EQ(outcome.rank, too_few ? 1 : kSparedRank);
  }
}

// They would train on, and count as hung later.
TEST_F(SuperviseRestartsTest, TasksThatAreLeftOutEndAtOnce) {
  std::vector<ProcessSpec> processes = {process("worker 2", "sleep 60")};
  const auto others = [](const GroupState&) -> OtherGroups {
    return {.failed = "lost the rendezvous", .left_out = true};
  };
  const Outcome outcome = supervise_here(processes, {.others = others, .asks_others = true});
  EXPECT_EQ(outcome.rank, 7);
  EXPECT_THAT(read("err"), HasSubstr("lost the rendezvous; stopping worker 2\n"));
}

TEST_F(SuperviseRestartsTest, WithoutAWorkerThatIsToldToStopTheOthersGoOn) {
  std::vector<ProcessSpec> processes = {process("chief 0", "wait_for_end gone; echo done"),
                                        process("worker 0", "as gone; exit 143")};
  processes[1].may_be_lost = true;
  EXPECT_EQ(supervise_here(processes, {.survivor_time = milliseconds(1)}).exit_code, 143);
  EXPECT_THAT(read("out"), HasSubstr("[chief 0] done\n"));
  EXPECT_THAT(read("err"), HasSubstr("the run continues with chief 0"));
}

TEST_F(SuperviseRestartsTest, ASecondCtrlCIsSaidToTheOtherMachines) {
  GroupState last;
  const auto others = [&](const GroupState& own) {
    last = own;
    return OtherGroups{};
  };
  const Outcome outcome = supervise_scripts(
      {"trap 'touch asked' INT; kill -INT $PPID; wait_for asked; kill -INT $PPID; "
       "for i in {1..3000}; do sleep 0.01; done"},
      {.stop_time = seconds(25), .others = others});
  EXPECT_EQ(outcome.exit_code, 130);
  EXPECT_TRUE(last.kills);
}

TEST_F(SuperviseRestartsTest, ASecondCtrlCOnAnotherMachineKillsAtOnce) {
  const auto others = [&](const GroupState&) {
    const bool ready = !read("ready").empty();
    return OtherGroups{.stop_signal = ready ? SIGINT : 0, .kills = ready};
  };
  const Outcome outcome =
      supervise_scripts({"trap '' INT; echo yes >ready; for i in {1..3000}; do sleep 0.01; done"},
                        {.stop_time = seconds(25), .others = others});
  EXPECT_EQ(outcome.exit_code, 130);
  EXPECT_EQ(outcome.tasks[0].status, ExitStatus{.signal = SIGKILL});
  EXPECT_THAT(read("err"), Not(HasSubstr("still running")));
}

}  // namespace
}  // namespace muster::inline v0_1::launch
