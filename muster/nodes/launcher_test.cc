#include "muster/nodes/launcher.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "muster/base/exit_code.h"

namespace muster::inline v0_1::nodes {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Told = NodeReport::State;
using State = RunView::State;
using Next = Launcher::Next;

constexpr uint64_t kRendezvous = 5;
const RunView kGathers{.rendezvous = kRendezvous, .missing = {"node 0"}, .last_round = 3};
const RunView kRuns{.state = State::kRunning, .rendezvous = kRendezvous, .round = 4};
const RendezvousLoss kSilent{.reason = "no word", .seconds = 7};

class LauncherTest : public ::testing::Test {
 protected:
  Next next(const RunView& view, const std::optional<RendezvousLoss>& loss = {}, double now = 0) {
    return launcher_.next(view, loss, now);
  }
  void join() {
    EXPECT_EQ(next(kGathers), Next::kJoin);
    launcher_.join({"host:1"});
  }
  void start() {
    join();
    EXPECT_EQ(next(kRuns), Next::kStart);
  }

  Launcher launcher_{{.node = 1, .nodes = 2}, "host:29500", 60};
};

TEST_F(LauncherTest, AFailureOfTheOthersIsTheEndOfItsTasksAndTheBeginOfTheNextRound) {
  EXPECT_EQ(next({}), Next::kWait);
  join();
  EXPECT_EQ(launcher_.report().state, Told::kReady);
  EXPECT_EQ(next(kGathers), Next::kWait);
  EXPECT_EQ(launcher_.report().heard_rendezvous, kRendezvous);
  EXPECT_EQ(launcher_.report().heard_round, 3);
  EXPECT_EQ(next(kRuns), Next::kStart);
  EXPECT_EQ(launcher_.report().state, Told::kRunning);
  EXPECT_EQ(launcher_.report().round, 4);
  EXPECT_THAT(launcher_.others(kRuns, {}).failed, IsEmpty());
  RunView ending = kRuns;
  ending.state = State::kEnding;
  ending.failure = "node 0: worker 0: exit code 1";
  EXPECT_EQ(launcher_.others(ending, {}).failed, ending.failure);
  launcher_.tasks_are({.failed = "worker 1: exit code 138"});
  EXPECT_EQ(launcher_.report().tasks.failed, "worker 1: exit code 138");
  launcher_.ended({.exit_code = kExitRestart, .rank = 5, .reasons = {"lost a peer"}}, 0);
  EXPECT_EQ(launcher_.report().state, Told::kEnded);
  EXPECT_EQ(next(ending), Next::kWait);
  join();
  EXPECT_EQ(launcher_.report().tasks, launch::GroupState());
  EXPECT_EQ(launcher_.report().outcome, NodeOutcome());
  EXPECT_EQ(next({.state = State::kOver, .rendezvous = kRendezvous, .exit_code = 2}), Next::kLeave);
  EXPECT_EQ(launcher_.exit_code(), 2);
  EXPECT_THAT(launcher_.failure(), IsEmpty());
  EXPECT_EQ(launcher_.report().state, Told::kLeaving);
}

TEST_F(LauncherTest, TasksEndWithTheRendezvousOrWithAnotherRound) {
  start();
  const std::string lost = "lost the rendezvous at host:29500: no word";
  EXPECT_EQ(launcher_.others(kRuns, kSilent).failed, lost);
  EXPECT_TRUE(launcher_.report().cut_off);
  EXPECT_EQ(launcher_.others(kRuns, {}).failed, lost) << "they are ending";
  RunView other = kRuns;
  other.rendezvous = 6;
  EXPECT_FALSE(launcher_.others(kRuns, {}).left_out);
  for (const RunView& over : {kGathers, other}) {
    Launcher one({.node = 1, .nodes = 2, .least = 1}, "host:29500", 60);
    (void)one.next(kGathers, {}, 0);
    one.join({});
    EXPECT_EQ(one.next(kRuns, {}, 0), Next::kStart);
    EXPECT_FALSE(one.report().cut_off);
    EXPECT_THAT(one.others(over, {}).failed, HasSubstr("ended this start of the run"));
    EXPECT_THAT(one.others(kRuns, {}).failed, HasSubstr("ended this start of the run"));
    EXPECT_TRUE(one.others(kRuns, {}).left_out);
  }
  // Another rendezvous has forgotten the round.
  launcher_.ended({}, 0);
  EXPECT_EQ(next(kRuns), Next::kWait);
  EXPECT_EQ(next(other), Next::kJoin);
}

TEST_F(LauncherTest, AnotherMachineThatIsDoneIsNamedButNotThisOne) {
  start();
  RunView view = kRuns;
  view.done = "node 1";
  EXPECT_THAT(launcher_.others(view, {}).done, IsEmpty());
  view.done = "node 0";
  EXPECT_EQ(launcher_.others(view, {}).done, "node 0");
}

TEST_F(LauncherTest, ARendezvousThatWasNotReachedIsGivenUp) {
  RendezvousLoss loss{.reason = "connection refused", .never = true, .seconds = 60};
  EXPECT_EQ(next({}, loss), Next::kWait);
  EXPECT_EQ(
      launcher_.awaited({}, loss),
      "the rendezvous at host:29500, which the launcher of node 0 serves: connection refused");
  loss.seconds = 61;
  EXPECT_EQ(next({}, loss), Next::kLeave);
  EXPECT_EQ(launcher_.exit_code(), kExitRestart);
  EXPECT_THAT(launcher_.failure(), HasSubstr("the rendezvous at host:29500 was not reached within "
                                             "60 s (connection refused): the launcher of node 0"));
}

TEST_F(LauncherTest, ARendezvousThatEndedIsGivenUpAtOnceAndASilentOneLater) {
  join();
  EXPECT_EQ(next(kGathers, kSilent), Next::kWait);
  EXPECT_EQ(launcher_.awaited(kGathers, {}), "node 0");
  EXPECT_EQ(launcher_.awaited(kGathers, kSilent),
            fmt::format("node 0; no contact with the rendezvous at host:29500, which the launcher "
                        "of node 0 serves: {}",
                        kSilent.reason));
  EXPECT_EQ(next(kGathers, RendezvousLoss{.reason = "gone", .ended = true}), Next::kLeave);
  EXPECT_EQ(launcher_.exit_code(), kExitRestart);
  EXPECT_THAT(launcher_.failure(), HasSubstr("at host:29500 is lost (gone)"));
}

TEST_F(LauncherTest, ASignalWaitsForTheOthersAndASecondOneDoesNot) {
  join();
  launcher_.stop(2, 10);
  EXPECT_EQ(launcher_.report().stop_signal, 2);
  EXPECT_EQ(next(kGathers, {}, 14.9), Next::kWait);
  EXPECT_EQ(next(kGathers, {}, 15), Next::kLeave);
  EXPECT_EQ(launcher_.exit_code(), kExitTerminated);

  Launcher other({.node = 1, .nodes = 2}, "host:29500", 60);
  other.stop(15, 10);
  other.stop(2, 11);
  EXPECT_EQ(other.report().stop_signal, 15);
  EXPECT_EQ(other.next({}, {}, 11), Next::kLeave);
  EXPECT_EQ(other.exit_code(), 130);
}

TEST_F(LauncherTest, ASecondCtrlCKillsTheTasksOfTheOthers) {
  start();
  RunView view = kRuns;
  view.stop_signal = SIGINT;
  EXPECT_FALSE(launcher_.others(view, {}).kills);
  view.kills = true;
  EXPECT_TRUE(launcher_.others(view, {}).kills);
  launcher_.ended({.exit_code = kExitInterrupted, .rank = 7}, SIGINT);
  EXPECT_FALSE(launcher_.report().tasks.kills);
  launcher_.stop(SIGTERM, 10);
  EXPECT_FALSE(launcher_.report().tasks.kills);
  launcher_.stop(SIGINT, 11);
  EXPECT_TRUE(launcher_.report().tasks.kills);
}

TEST_F(LauncherTest, ASignalToItsTasksStopsTheRun) {
  start();
  launcher_.ended({.exit_code = kExitTerminated, .rank = 7}, 15);
  EXPECT_EQ(launcher_.report().stop_signal, 15);
  EXPECT_EQ(next(kRuns), Next::kWait);
}

}  // namespace
}  // namespace muster::inline v0_1::nodes
