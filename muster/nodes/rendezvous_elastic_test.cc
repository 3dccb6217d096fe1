#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "muster/base/exit_code.h"
#include "muster/nodes/internal/rendezvous_testing.h"

namespace muster::inline v0_1::nodes {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using State = RunView::State;

// Two machines of two tasks each, of which one machine's are enough.
RendezvousOptions elastic(int nodes = 2, int least = 1, int restarts = 3) {
  RendezvousOptions options{.first = report_of(0, nodes),
                            .join_timeout = 60,
                            .restarts = {.restarts = restarts},
                            .tasks = 2,
                            .min_tasks = 2 * least,
                            .settle_timeout = 30};
  options.first.least = least;
  return options;
}

class RendezvousElastic : public ::testing::Test {
 protected:
  void begin(const RendezvousOptions& options = elastic()) {
    run_.emplace(options);
    for (int node = 0; node < options.first.nodes; ++node) (void)run_->come(node, 100 + node);
    for (int node = 0; node < options.first.nodes; ++node) runs(node, 1);
  }
  void runs(int node, int64_t round) {
    run_->report(node).tasks = {.left = 2};
    EXPECT_EQ(run_->runs(node, round).state, State::kRunning);
  }
  // The launcher dies with its tasks.
  void lose(int node) {
    run_->breaks(node);
    run_->pass(3, {node});
  }
  RunView ask(int node, const std::string& text) {
    run_->report(node).tasks.asks.push_back(text);
    return run_->send(node);
  }

  std::optional<Launchers> run_;
};

TEST_F(RendezvousElastic, ALostMachineEndsNothingAndComesAgain) {
  begin();
  const RunView before = run_->view(1);
  lose(1);
  EXPECT_EQ(run_->view(0).state, State::kRunning);
  EXPECT_THAT(run_->view(0).lines, Contains(AllOf(HasSubstr("node 1 (host1) was lost"),
                                                  HasSubstr("the run continues without it"))));
  run_->pass(300, {1});
  const RunView view = run_->come(1, 777);
  EXPECT_EQ(view.state, State::kRunning);
  EXPECT_EQ(view.round, 1);
  EXPECT_GT(view.entry, before.entry);
  EXPECT_TRUE(view.joins);
  EXPECT_FALSE(view.new_ports);
  EXPECT_EQ(view.addresses, before.addresses);
  EXPECT_THAT(run_->view(0).lines, Contains("node 1 (host1) joins the run"));
  runs(1, 1);
  run_->ends(1, {}), run_->ends(0, {});
  EXPECT_EQ(run_->view(0).state, State::kOver);
  EXPECT_EQ(run_->view(0).exit_code, 0);
}

TEST_F(RendezvousElastic, AMachineWhoseConnectionBrokeKeepsItsTasks) {
  begin();
  const int64_t entry = run_->view(1).entry;
  lose(1);
  const RunView view = run_->send(1);
  EXPECT_EQ(view.state, State::kRunning);
  EXPECT_EQ(view.entry, entry);
  EXPECT_FALSE(view.joins);
}

// It may hear too late that it would keep them. How they end is no failure.
TEST_F(RendezvousElastic, AMachineThatEndedItsTasksBecauseItWasCutOffJoinsAgain) {
  begin();
  lose(1);
  EXPECT_EQ(run_->send(1).state, State::kRunning);
  run_->report(1).cut_off = true;
  EXPECT_EQ(run_->send(1).state, State::kGathering);
  run_->report(1).tasks.failed = "worker 3 hung";
  EXPECT_EQ(run_->send(1).state, State::kGathering);
  run_->ends(1, {.exit_code = kExitRestart, .rank = 3});
  run_->report(1).cut_off = false;
  run_->report(1).tasks = {};
  EXPECT_EQ(run_->view(0).state, State::kRunning);
  EXPECT_EQ(run_->view(1).state, State::kGathering);
  const RunView view = run_->ready(1);
  EXPECT_EQ(view.state, State::kRunning);
  EXPECT_TRUE(view.joins);
}

TEST_F(RendezvousElastic, LostTasksStartAgainWithinTheBudgetOfTheRun) {
  begin(elastic(2, 1, /*restarts=*/2));
  EXPECT_THAT(ask(1, "worker 2: killed by SIGKILL").answers, IsEmpty());
  run_->pass(1);
  EXPECT_THAT(run_->view(1).answers, ElementsAre(1));
  EXPECT_THAT(run_->view(0).answers, IsEmpty());
  EXPECT_THAT(run_->view(0).lines,
              Contains("node 1 (host1): worker 2: killed by SIGKILL; starting it again (1 of 2)"));
  run_->report(1).tasks = {.left = 2, .answered = 1};
  EXPECT_THAT(run_->send(1).answers, IsEmpty());
  EXPECT_EQ(run_->view(1).first_answer, 1);
  // The second one soon after the first one waits about a second.
  ask(0, "worker 1: killed by SIGKILL"), ask(1, "worker 3: killed by SIGKILL");
  run_->pass(3);
  EXPECT_THAT(run_->view(0).answers, ElementsAre(1));
  EXPECT_THAT(run_->view(1).answers, ElementsAre(0));
  EXPECT_THAT(run_->view(0).lines,
              Contains(HasSubstr("worker 3: killed by SIGKILL; not started again: --restart=2")));
  EXPECT_EQ(run_->view(0).state, State::kRunning);
}

TEST_F(RendezvousElastic, TheChiefsFailureComesBeforeWhatItMakesOthersAsk) {
  begin(elastic(2, 1, /*restarts=*/1));
  ask(1, "worker 2: exit code 138");
  run_->report(0).tasks.failed = "worker 0: killed by SIGKILL";
  run_->send(0);
  run_->pass(1);
  EXPECT_EQ(run_->view(1).state, State::kEnding);
  EXPECT_THAT(run_->view(1).answers, IsEmpty());
  run_->ends(1, {.exit_code = kExitRestart, .rank = 6}), run_->ends(0, kKilled);
  EXPECT_THAT(run_->view(0).lines, Contains("starting all tasks again (1 of 1)"));
  run_->ready(0);
  EXPECT_EQ(run_->ready(1).round, 2);
}

TEST_F(RendezvousElastic, TheRunEndsWellWithoutAMachineWhoseTasksAreAllLost) {
  begin();
  run_->ends(1, {.exit_code = kExitKilled, .rank = 6, .reasons = {"worker 2 was killed"}});
  EXPECT_EQ(run_->view(0).state, State::kRunning);
  EXPECT_THAT(run_->view(0).done, IsEmpty());
  EXPECT_EQ(run_->ready(1).state, State::kRunning);  // it does not join by itself
  run_->ends(0, {});
  EXPECT_EQ(run_->view(1).state, State::kOver);
  EXPECT_EQ(run_->view(1).exit_code, 0);
}

TEST_F(RendezvousElastic, FewerTasksThanTheMinimumEndTheRun) {
  begin(elastic(2, 2));
  run_->report(1).tasks.left = 1;
  run_->send(1);
  EXPECT_EQ(run_->view(0).state, State::kEnding);
  EXPECT_TRUE(run_->view(0).too_few);
  EXPECT_EQ(run_->view(0).failure, "fewer than 4 workers are left");
  run_->ends(0, kLostPeer);
  run_->ends(1, {.exit_code = kExitKilled, .rank = 1, .reasons = {"worker 2 was killed"}});
  EXPECT_THAT(run_->view(0).lines, Contains("node 1 (host1): worker 2 was killed"));
}

TEST_F(RendezvousElastic, AMachineThatIsNeededIsWaitedFor) {
  begin(elastic(2, 2, /*restarts=*/0));
  lose(1);
  run_->pass(55, {1});
  EXPECT_EQ(run_->view(0).state, State::kRunning);
  run_->pass(5, {1});
  EXPECT_EQ(run_->view(0).state, State::kEnding);
  run_->ends(0, kLostPeer);
  EXPECT_EQ(run_->view(0).exit_code, kExitRestart);
  EXPECT_THAT(run_->view(0).lines,
              Contains(AllOf(HasSubstr("fewer than 4 workers are left: node 1 (host1) was lost"),
                             HasSubstr("and did not come again within 60 s"))));
}

TEST_F(RendezvousElastic, AMachineThatIsToldToStopLeavesTheOthersAndMayComeAgain) {
  begin();
  run_->report(1).stop_signal = SIGTERM;
  EXPECT_EQ(run_->send(1).state, State::kRunning);  // its tasks end by themselves
  EXPECT_EQ(run_->view(0).stop_signal, 0);
  EXPECT_THAT(run_->view(0).lines,
              Contains("node 1 (host1) was told to stop: it leaves the run, which continues"));
  run_->report(1).tasks.kills = true;  // by a second Ctrl-C there
  EXPECT_FALSE(run_->send(1).kills);
  const RunView left = run_->ends(1, {.exit_code = kExitTerminated, .rank = 7});
  EXPECT_EQ(left.state, State::kOver);
  EXPECT_EQ(left.exit_code, kExitTerminated);
  run_->report(1).state = NodeReport::State::kLeaving;
  run_->send(1);
  EXPECT_EQ(run_->view(0).state, State::kRunning);
  EXPECT_THAT(run_->view(0).lines, Not(Contains(HasSubstr("was lost"))));
  EXPECT_EQ(run_->come(1, 777).state, State::kRunning);
}

TEST_F(RendezvousElastic, ASignalStopsAllIfTooFewWouldBeLeftOrAtTheChief) {
  begin(elastic(2, 2));
  run_->report(1).stop_signal = SIGTERM;
  run_->send(1);
  EXPECT_EQ(run_->view(0).stop_signal, SIGTERM);
  begin();
  run_->report(0).stop_signal = SIGTERM;
  run_->send(0);
  EXPECT_EQ(run_->view(1).stop_signal, SIGTERM);
}

TEST_F(RendezvousElastic, ARoundBeginsWithoutAMachineThatIsGone) {
  begin(elastic(3));
  lose(2);
  run_->ends(0, kKilled), run_->ends(1, kLostPeer);
  run_->ready(0);
  run_->pass(40, {2});
  EXPECT_EQ(run_->view(0).state, State::kGathering);  // the tasks of machine 1 may still run
  const std::vector<std::vector<std::string>> addresses = run_->ready(1).addresses;
  EXPECT_EQ(run_->view(0).state, State::kRunning);
  EXPECT_EQ(run_->view(0).round, 2);
  EXPECT_THAT(addresses[2], ElementsAre("host2:1"));
  EXPECT_EQ(run_->come(2, 777).round, 2);
}

TEST_F(RendezvousElastic, TheFirstRoundWaitsForOthersFor30Seconds) {
  run_.emplace(elastic(3, 2));
  (void)run_->come(0, 100);
  run_->pass(20);
  EXPECT_EQ(run_->view(0).state, State::kGathering);
  (void)run_->come(2, 102);
  run_->pass(29);
  EXPECT_EQ(run_->view(0).state, State::kGathering);
  run_->pass(2);
  const RunView view = run_->view(0);
  EXPECT_EQ(view.state, State::kRunning);
  EXPECT_THAT(view.lines, Contains("node 1 is not here: the run begins without it"));
  EXPECT_THAT(view.addresses[1], ElementsAre("host0:3", "host0:4"));
  EXPECT_EQ(run_->come(1, 101).state, State::kRunning);
}

TEST_F(RendezvousElastic, ALauncherPrintsOnlyWhatIsSaidAfterItCame) {
  begin();
  lose(1);
  EXPECT_THAT(run_->come(1, 555).lines, ElementsAre("node 1 (host1) joins the run"));
  lose(1);
  EXPECT_THAT(run_->come(1, 556).lines, ElementsAre("node 1 (host1) joins the run"));
  const RunView view = run_->view(0);
  EXPECT_EQ(view.first_line, 0);
  EXPECT_THAT(view.lines, Contains("node 1 (host1) joins the run").Times(2));
}

}  // namespace
}  // namespace muster::inline v0_1::nodes
