#include "muster/nodes/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "muster/base/exit_code.h"
#include "muster/base/random.h"
#include "muster/nodes/internal/rendezvous_testing.h"

namespace muster::inline v0_1::nodes {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using Told = NodeReport::State;
using State = RunView::State;

TEST(Rendezvous, BeginsWhenAllAreReadyWithTheAddressesOfAll) {
  Launchers run(3);
  for (int node = 0; node < 3; ++node) {
    const RunView view = run.view(node);
    EXPECT_EQ(view.state, State::kRunning);
    EXPECT_EQ(view.round, 1);
    EXPECT_THAT(view.addresses, ElementsAre(ElementsAre("host0:1"), ElementsAre("host1:1"),
                                            ElementsAre("host2:1")));
    EXPECT_EQ(view.run_id, run.view(0).run_id);
  }
}

TEST(Rendezvous, AllWellIsExitCode0AndAllLeave) {
  Launchers run(2);
  run.runs(0, 1), run.runs(1, 1);
  EXPECT_EQ(run.ends(1, {}).state, State::kRunning);
  EXPECT_EQ(run.view(0).done, "node 1");
  run.ends(0, {});
  for (int node = 0; node < 2; ++node) {
    EXPECT_EQ(run.view(node).state, State::kOver);
    EXPECT_EQ(run.view(node).exit_code, 0);
    EXPECT_THAT(run.view(node).lines, IsEmpty());
    EXPECT_FALSE(run.rendezvous().all_left());
    run.report(node).state = Told::kLeaving;
    run.send(node);
  }
  EXPECT_TRUE(run.rendezvous().all_left());
}

TEST(Rendezvous, TheFirstFailureOfTheHighestRankIsTheCauseOnAll) {
  Launchers run(3, 0);
  for (int node = 0; node < 3; ++node) run.runs(node, 1);
  run.report(1).tasks.failed = "worker 1: killed";
  run.send(1);
  EXPECT_EQ(run.view(0).state, State::kEnding);
  EXPECT_EQ(run.view(2).failure, "node 1: worker 1: killed");
  run.ends(0, kLostPeer);
  run.ends(2, {.exit_code = kExitFailed, .rank = 1, .reasons = {"worker 2 failed later"}});
  EXPECT_EQ(run.view(0).state, State::kEnding);
  // Node 2's end was reported before node 1's, and both are of the highest rank.
  run.ends(1, kKilled);
  EXPECT_EQ(run.view(0).exit_code, kExitFailed);
  EXPECT_THAT(run.view(1).lines, Contains("node 2 (host2): worker 2 failed later"));
}

TEST(Rendezvous, StartsAgainWithinItsBudgetAndKeepsTheFirstCause) {
  Launchers run(2, 1);
  run.runs(0, 1), run.runs(1, 1);
  run.ends(1, kKilled), run.ends(0, kLostPeer);
  EXPECT_EQ(run.view(0).state, State::kGathering);
  EXPECT_THAT(run.view(0).lines, Contains("starting all tasks again (1 of 1)"));
  run.ready(0);
  EXPECT_EQ(run.view(0).state, State::kGathering);
  EXPECT_THAT(run.view(0).missing, ElementsAre("node 1 (host1)"));
  EXPECT_EQ(run.ready(1).round, 2);
  run.runs(0, 2), run.runs(1, 2);
  run.ends(0, {.exit_code = kExitRestart, .rank = 3, .reasons = {"worker 0 asks for a restart"}});
  run.ends(1, kLostPeer);
  const RunView view = run.view(1);
  EXPECT_EQ(view.state, State::kOver);
  EXPECT_EQ(view.exit_code, kExitRestart);
  EXPECT_THAT(view.lines, Contains(HasSubstr("--restart=1 allows no more restarts")));
  EXPECT_THAT(view.lines, Contains("the first failure of this run: node 1 (host1): worker 1 was "
                                   "killed"));
}

TEST(Rendezvous, ACodeThatWillRepeatEndsTheRun) {
  Launchers run(2, 5);
  run.runs(0, 1), run.runs(1, 1);
  run.ends(1, {.exit_code = kExitWrongUse, .rank = 1, .reasons = {"no such flag"}});
  run.ends(0, kLostPeer);
  EXPECT_EQ(run.view(0).state, State::kOver);
  EXPECT_EQ(run.view(0).exit_code, kExitWrongUse);
}

TEST(Rendezvous, ThePauseIsWaitedFor) {
  Launchers run(2, 3);
  for (int round = 1; round <= 2; ++round) {
    run.runs(0, round), run.runs(1, round);
    run.ends(1, kKilled), run.ends(0, kLostPeer);
    run.ready(0), run.ready(1);
  }
  EXPECT_EQ(run.view(0).state, State::kGathering);  // the second restart waits about a second
  run.pass(2);
  EXPECT_EQ(run.view(0).state, State::kRunning);
  EXPECT_EQ(run.view(0).round, 3);
}

TEST(Rendezvous, ALauncherThatIsLostIsAFailureAndMayComeAgain) {
  Launchers run(2, 1);
  run.runs(0, 1), run.runs(1, 1);
  run.breaks(1);
  run.pass(1.5, {1});
  EXPECT_EQ(run.view(0).state, State::kRunning);
  run.pass(1, {1});
  EXPECT_EQ(run.view(0).state, State::kEnding);
  EXPECT_THAT(run.view(0).failure, HasSubstr("node 1 (host1) was lost"));
  run.ends(0, kLostPeer);
  run.ready(0);
  EXPECT_EQ(run.view(0).state, State::kGathering);
  // Another process of that machine.
  EXPECT_EQ(run.come(1, 777).state, State::kRunning);
  EXPECT_EQ(run.view(0).round, 2);
}

TEST(Rendezvous, ALossCountsThoughTheMachineIsBackBeforeTheOthersHaveEnded) {
  Launchers run(2, 0);
  run.runs(0, 1), run.runs(1, 1);
  run.breaks(1);
  EXPECT_EQ(run.come(1, 777).state, State::kGathering);  // it has no part in this round
  EXPECT_EQ(run.view(0).state, State::kEnding);
  run.ends(0, kLostPeer);
  EXPECT_EQ(run.view(0).exit_code, kExitRestart);
  EXPECT_THAT(run.view(0).lines, Contains(HasSubstr("node 1 (host1) was lost")));
}

TEST(Rendezvous, AMachineThatDoesNotComeIsNamedAndGivenUp) {
  Launchers run(2, 1);
  run.runs(0, 1), run.runs(1, 1);
  run.breaks(1);
  run.pass(3, {1});
  run.ends(0, kLostPeer), run.ready(0);
  run.pass(59, {1});
  EXPECT_EQ(run.view(0).state, State::kGathering);
  run.pass(3, {1});
  EXPECT_EQ(run.view(0).state, State::kOver);
  EXPECT_EQ(run.view(0).exit_code, kExitRestart);
  EXPECT_THAT(run.view(0).lines,
              Contains("stopped because node 1 (host1) did not come within 60 s"));
}

TEST(Rendezvous, TheSameProcessComesBackAfterAPartition) {
  Launchers run(2, 1);
  run.runs(0, 1), run.runs(1, 1);
  run.pass(8, {1});  // silence, and the connection does not break
  EXPECT_EQ(run.view(0).state, State::kEnding);
  run.ends(0, kLostPeer), run.ready(0);
  EXPECT_EQ(run.send(1).state, State::kGathering);  // it still runs what was lost
  EXPECT_EQ(run.ends(1, kLostPeer).state, State::kGathering);
  EXPECT_EQ(run.ready(1).state, State::kRunning);
  EXPECT_EQ(run.view(0).round, 2);
}

// Found by `muster sim rendezvous`: a launcher stood still while a round began and ended. It reads
// the news of that round when it wakes, and may start its tasks; no other round begins before it
// has heard of the end.
TEST(Rendezvous, NoRoundBeginsForALauncherThatMayStartAnOldOne) {
  Launchers run(2, 3);
  run.runs(0, 1), run.runs(1, 1);
  run.ends(0, kKilled), run.ends(1, kLostPeer);
  run.ready(0);
  const NodeReport asleep = [&] {
    EXPECT_EQ(run.ready(1).round, 2);
    return run.report(1);
  }();
  run.runs(0, 2);
  run.pass(8, {1});
  EXPECT_EQ(run.view(0).state, State::kEnding);
  run.ends(0, kLostPeer), run.ready(0);
  run.pass(5, {1});
  // What it said before it fell asleep comes late.
  RunView view = run.rendezvous().report(101, asleep, run.now());
  EXPECT_EQ(view.state, State::kGathering);
  EXPECT_EQ(view.last_round, 2);
  EXPECT_EQ(run.view(0).state, State::kGathering);
  EXPECT_THAT(run.view(0).missing, ElementsAre("node 1 (host1)"));
  EXPECT_EQ(run.send(1).state, State::kRunning);  // it has heard
  EXPECT_EQ(run.view(0).round, 3);
}

TEST(Rendezvous, ASignalToOneStopsAll) {
  Launchers run(2, 3);
  run.runs(0, 1), run.runs(1, 1);
  run.report(1).stop_signal = 15;
  run.send(1);
  EXPECT_EQ(run.view(0).stop_signal, 15);
  run.ends(0, {.exit_code = kExitTerminated}), run.ends(1, {.exit_code = kExitTerminated});
  EXPECT_EQ(run.view(0).state, State::kOver);
  EXPECT_EQ(run.view(0).exit_code, kExitTerminated);
}

TEST(Rendezvous, ASecondCtrlCKillsTheTasksOfAllMachines) {
  Launchers run(2);
  run.runs(0, 1), run.runs(1, 1);
  run.report(1).stop_signal = 2;
  EXPECT_FALSE(run.send(1).kills);
  // Its tasks may have ended.
  run.report(1).tasks.kills = true;
  run.ends(1, {.exit_code = 130, .rank = 7});
  EXPECT_TRUE(run.view(0).kills);
  EXPECT_THAT(run.view(0).lines,
              Contains("node 1 (host1) got Ctrl-C again: killing the tasks of all machines"));
  run.ends(0, {.exit_code = 130, .rank = 7});
  EXPECT_EQ(run.view(0).exit_code, 130);
}

TEST(Rendezvous, APortInUseCostsNoRestartOnce) {
  Launchers run(2, 0);
  for (int round = 1; round <= 2; ++round) {
    run.runs(0, round), run.runs(1, round);
    EXPECT_EQ(run.view(0).new_ports, round == 1);
    run.ends(0, {.exit_code = kExitRestart,
                 .rank = 3,
                 .address_in_use = true,
                 .reasons = {"address already in use"}});
    EXPECT_EQ(run.view(1).state, State::kEnding);
    run.ends(1, kLostPeer);
    run.ready(0), run.ready(1);
  }
  EXPECT_EQ(run.view(0).state, State::kOver);
  EXPECT_EQ(run.view(0).exit_code, kExitRestart);
}

TEST(Rendezvous, ContradictionsAreNamed) {
  Launchers run(2);
  const auto refusal = [&](auto change) {
    NodeReport report = report_of(1, 2);
    change(report);
    const RunView view = run.rendezvous().report(999, report, run.now());
    return view.refused ? view.refused->message() : "";
  };
  EXPECT_EQ(refusal([](NodeReport& it) { it.nodes = 3; }),
            "node 1 (host1) was started with --nodes=1/3, and node 0 (host0) with --nodes=0/2");
  EXPECT_EQ(refusal([](NodeReport& it) { it.job_id = "other"; }),
            "node 1 (host1) belongs to job 'other', and the rendezvous of node 0 (host0) to job "
            "'job'");
  EXPECT_EQ(refusal([](NodeReport& it) { it.flags[0] = "--workers=2"; }),
            "node 1 (host1) was started with --workers=2, and node 0 (host0) with --workers=1");
  EXPECT_EQ(refusal([](NodeReport& it) { it.flags.push_back("its argument 1 '--x'"); }),
            "node 1 (host1) was started with its argument 1 '--x', and node 0 (host0) with "
            "(nothing)");
}

TEST(Rendezvous, ASecondLauncherOfAMachineIsRefusedWhileTheFirstLives) {
  Launchers run(2);
  NodeReport twin = report_of(1, 2);
  twin.host = "host9";
  RunView view = run.rendezvous().report(999, twin, run.now());
  EXPECT_FALSE(view.refused);  // the first one may be about to be lost
  EXPECT_THAT(view.missing, ElementsAre(HasSubstr("another launcher that is node 1")));
  run.pass(6.5);
  view = run.rendezvous().report(999, twin, run.now());
  ASSERT_TRUE(view.refused);
  EXPECT_EQ(view.refused->message(),
            "another launcher is node 1 already: one on host1, and now one on host9");
  EXPECT_EQ(run.view(1).state, State::kRunning);  // the first one is left alone
}

// Launchers that are killed, cut off and started again at random: no launcher runs a round that the
// rendezvous has ended, no round begins while a launcher has tasks, and the run ends.
TEST(Rendezvous, KeepsItsLawsUnderRandomFaults) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Random random(derive_key(seed, {id_of("rendezvous")}));
    constexpr int kNodes = 3;
    Rendezvous rendezvous(
        {.first = report_of(0, kNodes), .join_timeout = 30, .restarts = {.restarts = 4}}, 0);
    struct Launcher {
      NodeReport report{};
      uint64_t process = 0;
      bool connected = false, dead = true;
      double cut_until = 0, ends_at = 0;
      RunView view{};
    };
    std::vector<Launcher> launchers(kNodes);
    uint64_t next_process = 1;
    double now = 0;
    bool over = false;
    int64_t highest = 0;
    for (; now < 2000 && !over; now += 0.25) {
      for (int node = 0; node < kNodes; ++node) {
        Launcher& it = launchers[node];
        // The first machine's launcher holds the rendezvous; its end ends this simulation.
        if (node > 0 && !it.dead && random.uniform() < 0.004) {
          it.dead = true;
          if (it.connected) rendezvous.disconnected(it.process, node, now);
          it.connected = false;
        } else if (it.dead && random.uniform() < 0.2) {
          it = {.report = report_of(node, kNodes), .process = next_process++, .dead = false};
        }
        if (it.dead) continue;
        if (node > 0 && random.uniform() < 0.004) {
          it.cut_until = now + 12 * random.uniform();
          if (it.connected && random.uniform() < 0.5) {
            rendezvous.disconnected(it.process, node, now);
            it.connected = false;
          }
        }
        if (now >= it.cut_until) {
          it.view = rendezvous.report(it.process, it.report, now);
          (void)hears(it.report, it.view);
          ASSERT_FALSE(it.view.refused) << seed << ": " << it.view.refused->message();
          if (!it.connected) it.connected = rendezvous.connected(it.process, node);
        }
        if (it.report.state == Told::kReady && it.view.state == State::kRunning) {
          ASSERT_GE(it.view.round, highest) << seed;
          highest = it.view.round;
          it.report.state = Told::kRunning;
          it.report.round = it.view.round;
          it.report.entry = it.view.entry;
          it.ends_at = now + 20 * random.uniform();
          for (const Launcher& other : launchers) {
            ASSERT_TRUE(other.dead || other.report.state != Told::kRunning ||
                        other.report.round == it.view.round)
                << seed;
          }
        } else if (it.report.state == Told::kRunning &&
                   (now >= it.ends_at || it.view.round != it.report.round ||
                    it.view.state == State::kEnding)) {
          it.report.state = Told::kEnded;
          it.report.outcome = {};
          if (it.view.state == State::kEnding || random.uniform() < 0.3)
            it.report.outcome = kLostPeer;
        } else if (it.report.state == Told::kEnded && it.view.state == State::kGathering) {
          it.report.state = Told::kReady;
        }
        over = over || it.view.state == State::kOver;
      }
    }
    EXPECT_TRUE(over) << seed;
  }
}

}  // namespace
}  // namespace muster::inline v0_1::nodes
