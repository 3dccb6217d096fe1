// Groups of an elastic run: who is in the next one, who is waited for, what a newcomer does. At the
// end, random histories.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "muster/base/error_of.h"
#include "muster/plan/coordinator_state.h"
#include "muster/plan/internal/test_groups.h"

namespace muster::inline v0_1::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using State = Verdict::State;

CoordinatorOptions elastic_options(int tasks, int least) {
  CoordinatorOptions result = options(tasks, /*heartbeat=*/6, /*grace=*/0.3);
  result.min_members = least;
  result.settle_timeout = 3;
  return result;
}

// All slots are members, with incarnation 1.
CoordinatorState elastic_group(int tasks, int least) {
  return group_of(tasks, elastic_options(tasks, least));
}

Verdict join(CoordinatorState& state, int tasks, int rank, uint64_t incarnation, double now) {
  return state.join(caller(rank, incarnation), rank, tasks, now);
}

// `muster run --nodes` gives the tasks of a machine that has not come the chief's host.
TEST(ElasticGroup, AnAddressThatTellsNothingIsNotShown) {
  CoordinatorOptions options = elastic_options(3, 2);
  options.roster[2].address = "10.0.0.0:3";
  const std::vector<MissingTask> missing = CoordinatorState(options, 0).missing(0);
  ASSERT_EQ(missing.size(), 3u);
  EXPECT_THAT(missing[0].describe(), HasSubstr("chief at 10.0.0.0:2222 ("));
  EXPECT_THAT(missing[1].describe(), HasSubstr("worker 0 at 10.0.0.1:2222 ("));
  EXPECT_THAT(missing[2].describe(), HasSubstr("worker 1 (0 s)"));
}

// A survivor closes its client, and joins again.
Verdict come_again(CoordinatorState& state, int tasks, int rank, uint64_t incarnation, double now) {
  state.leave(caller(rank, incarnation - 1));
  return join(state, tasks, rank, incarnation, now);
}

TEST(ElasticGroup, AfterALossTheSurvivorsAreTheNextOneAtOnce) {
  CoordinatorState state = elastic_group(4, 2);
  const int64_t first = state.epoch();
  state.connected(caller(2));
  for (double now = 0; now <= 10; now += 1) {
    for (const int rank : {0, 1, 2, 3})
      (void)state.heartbeat(caller(rank), Phase::kTraining, 5, now);
    state.tick(now);
  }
  state.disconnected(caller(2), 10);
  for (const double now : {10.2, 10.4}) {
    for (const int rank : {0, 1, 3}) (void)state.heartbeat(caller(rank), Phase::kTraining, 5, now);
    state.tick(now);
  }
  ASSERT_TRUE(state.first_failure());
  EXPECT_EQ(state.first_failure()->task, "worker:1");
  EXPECT_EQ(come_again(state, 4, 1, 2, 10.5).state, State::kWaiting);
  EXPECT_EQ(come_again(state, 4, 0, 2, 10.5).state, State::kWaiting) << "worker 2 is awaited";
  EXPECT_EQ(come_again(state, 4, 3, 2, 10.6).state, State::kReady);
  EXPECT_EQ(join(state, 4, 0, 2, 10.6).state, State::kReady);
  EXPECT_EQ(state.epoch(), first + 1);
  EXPECT_THAT(state.group(), ElementsAre(0, 1, 3));
  EXPECT_EQ(state.store().get(kMembersKey), "0,1,3");
  EXPECT_FALSE(state.first_failure());
}

// No member is lost: all have reported a lost connection, or time enough has passed.
TEST(ElasticGroup, AfterLostConnectionsAllMembersAreTheNextOne) {
  CoordinatorState state = elastic_group(3, 2);
  for (const int rank : {0, 1, 2}) (void)state.heartbeat(caller(rank), Phase::kTraining, 5, 1);
  state.report_lost_connection(caller(1), "cut", 2);
  state.report_lost_connection(caller(0), "cut too", 2);
  EXPECT_FALSE(state.first_failure());
  state.report_lost_connection(caller(2), "cut too", 2);
  ASSERT_TRUE(state.first_failure());
  EXPECT_EQ(state.first_failure()->describe(),
            "connections between tasks broke at step 5 (training): cut");
  (void)come_again(state, 3, 1, 2, 2.1);
  EXPECT_EQ(come_again(state, 3, 0, 2, 2.1).state, State::kWaiting) << "worker 1 is awaited";
  EXPECT_EQ(come_again(state, 3, 2, 2, 2.2).state, State::kReady);
  EXPECT_THAT(state.group(), ElementsAre(0, 1, 2));

  // The next group begins without these reports; worker 1 is in a long step.
  state.report_lost_connection(caller(0, 2), "cut", 3);
  state.report_lost_connection(caller(1, 2), "cut", 3);
  state.tick(3.5);
  EXPECT_FALSE(state.first_failure());
  state.tick(3.7);
  ASSERT_TRUE(state.first_failure());
  EXPECT_EQ(state.first_failure()->task, "");
}

TEST(ElasticGroup, AMemberThatIsFoundLostIsTheCauseOfLostConnections) {
  CoordinatorState state = elastic_group(3, 2);
  state.connected(caller(2));
  state.report_lost_connection(caller(0), "cut", 1);
  state.report_lost_connection(caller(1), "cut", 1);
  state.disconnected(caller(2), 1.1);
  state.tick(1.3);
  EXPECT_FALSE(state.first_failure());
  state.tick(1.5);
  ASSERT_TRUE(state.first_failure());
  EXPECT_EQ(state.first_failure()->task, "worker:1");
}

TEST(ElasticGroup, BarriersAndTheEndCountItsMembers) {
  CoordinatorState state = elastic_group(3, 1);
  state.fail(caller(2), ErrorKind::kPeerLost, "gone");
  (void)come_again(state, 3, 0, 2, 1);
  ASSERT_EQ(come_again(state, 3, 1, 2, 1).state, State::kReady);
  EXPECT_EQ(state.barrier(caller(0, 2), "step", 0, 2).state, State::kWaiting);
  EXPECT_EQ(state.barrier(caller(1, 2), "step", 0, 2).state, State::kReady);
  state.done(caller(0, 2));
  EXPECT_FALSE(state.all_done());
  state.done(caller(1, 2));
  EXPECT_TRUE(state.all_done());
}

TEST(ElasticGroup, ALostMemberIsToldAndComesAsANewcomer) {
  CoordinatorState state = elastic_group(3, 2);
  state.connected(caller(2));
  state.disconnected(caller(2), 1);
  state.tick(1.2);
  state.tick(1.4);
  (void)come_again(state, 3, 0, 2, 2);
  ASSERT_EQ(come_again(state, 3, 1, 2, 2).state, State::kReady);
  // It lives after all, and hears what happened to it.
  const auto told = state.heartbeat(caller(2), Phase::kTraining, 7, 3).failure;
  ASSERT_TRUE(told);
  EXPECT_EQ(told->task, "worker:1");
  const Verdict waits = join(state, 3, 2, 2, 3);
  EXPECT_EQ(waits.state, State::kWaiting);
  ASSERT_EQ(waits.missing.size(), 2u);
  EXPECT_THAT(waits.missing[0].describe(), HasSubstr("chief at 10.0.0.0:2222, "));
  EXPECT_FALSE(state.first_failure()) << "a newcomer fails nothing";
  EXPECT_EQ(state.newcomers(), 1);
}

TEST(ElasticGroup, AfterAnOrderlyEndANewcomerIsInTheNextOne) {
  CoordinatorState state = elastic_group(3, 2);
  state.fail(caller(2), ErrorKind::kPeerLost, "gone");
  (void)come_again(state, 3, 0, 2, 1);
  (void)come_again(state, 3, 1, 2, 1);
  EXPECT_EQ(join(state, 3, 2, 2, 2).state, State::kWaiting);
  for (const int rank : {0, 1}) state.done(caller(rank, 2));
  EXPECT_EQ(state.newcomers(), 0) << "no group runs without it now";
  EXPECT_EQ(come_again(state, 3, 1, 3, 3).state, State::kWaiting);
  EXPECT_EQ(come_again(state, 3, 0, 3, 3).state, State::kReady);
  EXPECT_THAT(state.group(), ElementsAre(0, 1, 2));
  EXPECT_FALSE(state.first_failure());
}

TEST(ElasticGroup, AMemberThatStartsAgainInARunningGroupIsALoss) {
  CoordinatorState state = elastic_group(3, 2);
  state.connected(caller(1));
  state.disconnected(caller(1), 5);
  EXPECT_EQ(join(state, 3, 1, 2, 5.1).state, State::kWaiting);
  ASSERT_TRUE(state.first_failure());
  EXPECT_EQ(state.first_failure()->task, "worker:0");
  (void)come_again(state, 3, 0, 2, 5.2);
  EXPECT_EQ(come_again(state, 3, 2, 2, 5.2).state, State::kReady);
  EXPECT_THAT(state.group(), ElementsAre(0, 1, 2)) << "it is in the next one";
}

TEST(ElasticGroup, NeedsTheChiefAndTheMinimum) {
  CoordinatorState state = elastic_group(4, 3);
  state.fail(caller(3), ErrorKind::kPeerLost, "gone");
  state.fail(caller(2), ErrorKind::kPeerLost, "gone too");
  (void)come_again(state, 4, 0, 2, 1);
  (void)come_again(state, 4, 1, 2, 1);
  for (double now = 1; now < 60; now += 1) {
    EXPECT_EQ(join(state, 4, 0, 2, now).state, State::kWaiting);
    EXPECT_EQ(join(state, 4, 1, 2, now).state, State::kWaiting);
  }
  EXPECT_EQ(join(state, 4, 3, 2, 60).state, State::kReady) << "a worker that comes completes it";

  CoordinatorState other = elastic_group(3, 1);
  other.fail(caller(2), ErrorKind::kPeerLost, "gone");
  for (double now = 1; now < 60; now += 1)
    EXPECT_EQ(join(other, 3, 1, 2, now).state, State::kWaiting) << "without the chief";
}

// One that left without a word comes again at once, or not at all; one that is in a long step is
// waited for as long as it lives.
TEST(ElasticGroup, HowLongASurvivorIsWaitedFor) {
  CoordinatorState state = elastic_group(4, 2);
  state.fail(caller(3), ErrorKind::kPeerLost, "gone");
  state.leave(caller(2));
  (void)come_again(state, 4, 0, 2, 0);
  (void)come_again(state, 4, 1, 2, 0);
  EXPECT_EQ(join(state, 4, 0, 2, 5.9).state, State::kWaiting);
  EXPECT_EQ(join(state, 4, 0, 2, 6.1).state, State::kReady);
  EXPECT_THAT(state.group(), ElementsAre(0, 1));

  // Two that were asked to stop: one in its group, one that waits for the next.
  CoordinatorState asked = elastic_group(5, 2);
  asked.fail(caller(4), ErrorKind::kCancelled, "stopped");
  asked.leave(caller(3), /*for_good=*/true);
  EXPECT_EQ(come_again(asked, 5, 2, 2, 0).state, State::kWaiting);
  (void)come_again(asked, 5, 1, 2, 0);
  asked.leave(caller(2, 2), /*for_good=*/true);
  EXPECT_EQ(come_again(asked, 5, 0, 2, 0.1).state, State::kReady);
  EXPECT_THAT(asked.group(), ElementsAre(0, 1));
  // What it said holds for that group alone.
  (void)join(asked, 5, 3, 3, 0.2);
  for (const int rank : {0, 1}) asked.done(caller(rank, 2));
  (void)come_again(asked, 5, 1, 3, 0.3);
  ASSERT_EQ(come_again(asked, 5, 0, 3, 0.3).state, State::kReady);
  asked.fail(caller(1, 3), ErrorKind::kPeerLost, "gone");
  asked.leave(caller(3, 3));
  EXPECT_EQ(come_again(asked, 5, 0, 4, 0.4).state, State::kWaiting);

  CoordinatorState slow = elastic_group(3, 1);
  slow.fail(caller(2), ErrorKind::kPeerLost, "gone");
  (void)come_again(slow, 3, 0, 2, 0);
  for (double now = 0; now < 29; now += 1) {
    (void)slow.heartbeat(caller(1), Phase::kTraining, 3, now);
    slow.tick(now);
    EXPECT_EQ(join(slow, 3, 0, 2, now).state, State::kWaiting) << now;
  }
  EXPECT_EQ(join(slow, 3, 0, 2, 31).state, State::kReady) << "the limit of a stuck task";
}

TEST(ElasticGroup, TheFirstOneWaitsAWhileForAll) {
  CoordinatorState state(elastic_options(4, 2), 0);
  (void)join(state, 4, 0, 1, 0);
  (void)join(state, 4, 1, 1, 2);
  EXPECT_EQ(join(state, 4, 0, 1, 4.9).state, State::kWaiting);
  EXPECT_EQ(join(state, 4, 0, 1, 5).state, State::kReady);
  EXPECT_THAT(state.group(), ElementsAre(0, 1));

  CoordinatorState all(elastic_options(3, 1), 0);
  for (const int rank : {0, 1}) (void)join(all, 3, rank, 1, 0);
  EXPECT_EQ(join(all, 3, 2, 1, 0).state, State::kReady) << "nobody else can come";
}

TEST(ElasticGroup, BoundsThatContradictAreRefused) {
  EXPECT_THAT(error_of([] { CoordinatorState(elastic_options(2, 3), 0); }).message(),
              HasSubstr("min_members is 3, and there are 2 tasks"));
}

// --- random histories ---

// Processes of a few slots that die, start again, stand still and lose connections, to the chief or
// to each other, next to a chief that lives. What must hold:
// - a group has the chief, the minimum, and only processes that asked to join,
// - no process is in two epochs, and a live one that is in the present epoch is in its group,
// - when faults end, soon all live processes are in one group.
class ElasticHistory {
 public:
  ElasticHistory(uint64_t seed, int tasks, int least)
      : random_(seed), tasks_(tasks), least_(least), state_(elastic_options(tasks, least), 0) {
    for (int rank = 0; rank < tasks; ++rank) start(rank);
  }

  int groups = 0, losses = 0, orderly = 0;

  void run() {
    constexpr double kFaults = 60, kEnd = 110, kLook = 0.05;
    for (now_ = 0; now_ < kEnd && !::testing::Test::HasFailure(); now_ += kLook) {
      if (now_ < kFaults && draw(40) == 0) strike();
      for (auto& process : processes_) {
        if (process.lives && now_ >= process.still_until) act(process);
      }
      state_.tick(now_);
    }
    std::set<int64_t> epochs;
    for (const auto& process : processes_) {
      if (process.lives) epochs.insert(process.epoch);
    }
    EXPECT_THAT(epochs, ElementsAre(state_.epoch())) << "all live processes are in one group";
    EXPECT_EQ(std::ssize(state_.group()), live());
  }

 private:
  struct Process {
    int rank = 0;
    uint64_t incarnation = 0;
    bool lives = true;
    int64_t epoch = -1;  // of the group it is in
    bool connected = false;
    bool leaves = false;  // an orderly end was agreed on
    double still_until = 0;
    Caller who() const { return caller(rank, incarnation); }
  };

  int draw(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  int64_t live() const {
    return std::ranges::count_if(processes_, [](const Process& one) { return one.lives; });
  }

  void start(int rank) { processes_.push_back({.rank = rank, .incarnation = ++incarnations_}); }

  void end_connection(Process& process) {
    if (std::exchange(process.connected, false)) state_.disconnected(process.who(), now_);
  }

  // One of the workers gets a blow, never the chief.
  void strike() {
    const int rank = 1 + draw(tasks_ - 1);
    const auto found = std::ranges::find_if(
        processes_, [&](const Process& one) { return one.lives && one.rank == rank; });
    if (found == processes_.end()) return start(rank);
    switch (draw(5)) {
      case 0:
        found->still_until = now_ + draw(12);
        break;
      case 1:
        end_connection(*found);  // and comes back with its next look
        found->still_until = now_ + draw(10) * 0.1;
        break;
      case 2:
        broken_epoch_ = found->epoch;
        break;
      default:
        found->lives = false;
        if (found->epoch < 0) state_.abandon_join(found->who());
        end_connection(*found);
        if (draw(2) == 0) start(rank);
    }
  }

  // The process comes to its group again, as another member of it.
  void join_again(Process& process) {
    state_.leave(process.who());
    end_connection(process);
    process.incarnation = ++incarnations_;
    process.epoch = -1;
    process.leaves = false;
  }

  void act(Process& process) {
    if (process.epoch < 0) return ask(process);
    if (!process.connected && state_.may_connect(process.who())) {
      state_.connected(process.who());
      process.connected = true;
    }
    if (state_.heartbeat(process.who(), Phase::kTraining, 1, now_).failure) {
      ++losses;
      return join_again(process);
    }
    ASSERT_EQ(process.epoch, state_.epoch()) << "two epochs are active";
    if (process.epoch == broken_epoch_)
      state_.report_lost_connection(process.who(), "a collective", now_);
    ASSERT_TRUE(state_.group().contains(process.rank));
    // The chief sees newcomers, and all learn of it in the next step that all of them make.
    const auto members = std::ranges::count_if(
        processes_, [&](const Process& one) { return one.lives && one.epoch == state_.epoch(); });
    if (process.rank == 0 && state_.newcomers() > 0 && !process.leaves &&
        members == std::ssize(state_.group())) {
      ++orderly;
      for (auto& other : processes_) other.leaves |= other.lives && other.epoch == process.epoch;
    }
    if (!process.leaves) return;
    state_.done(process.who());
    if (state_.all_done()) {
      for (auto& other : processes_) {
        if (other.lives && other.epoch == state_.epoch()) join_again(other);
      }
    }
  }

  void ask(Process& process) {
    const int64_t before = state_.epoch();
    const Verdict verdict = state_.join(process.who(), process.rank, tasks_, now_);
    if (state_.epoch() != before) check_group();
    if (verdict.state == State::kFailed) return join_again(process);
    if (verdict.state == State::kRefused) {
      // Another process of its slot lives: this one ends.
      process.lives = false;
      return;
    }
    if (verdict.state == State::kReady) process.epoch = state_.epoch();
  }

  void check_group() {
    ++groups;
    EXPECT_TRUE(state_.group().contains(0));
    EXPECT_GE(std::ssize(state_.group()), least_);
    for (const int rank : state_.group()) {
      const bool asked = std::ranges::any_of(
          processes_, [&](const Process& one) { return one.rank == rank && one.epoch < 0; });
      EXPECT_TRUE(asked) << rank << " is in a group that it did not ask for";
    }
  }

  std::mt19937_64 random_;
  const int tasks_, least_;
  double now_ = 0;
  uint64_t incarnations_ = 0;
  int64_t broken_epoch_ = -1;  // the group whose members have lost connections
  std::deque<Process> processes_;
  CoordinatorState state_;
};

TEST(ElasticGroup, HoldsInRandomHistories) {
  int groups = 0, losses = 0, orderly = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const int tasks = 2 + static_cast<int>(seed % 4);
    ElasticHistory history(seed, tasks, 1 + static_cast<int>(seed % 2));
    history.run();
    groups += history.groups;
    losses += history.losses;
    orderly += history.orderly;
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(groups, 400);
  EXPECT_GT(losses, 400);
  EXPECT_GT(orderly, 200);
}

}  // namespace
}  // namespace muster::inline v0_1::plan
