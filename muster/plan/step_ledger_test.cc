#include "muster/plan/step_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "muster/base/error.h"
#include "muster/base/error_of.h"

namespace muster::inline v0_1::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Claimed = StepLedger::Claim::State;
using Committed = StepLedger::Commit::State;

StepLedger begun(StepLedger::Options options, std::optional<int64_t> last_step = {}) {
  StepLedger ledger(options);
  ledger.begin({.last_step = last_step}, 0);
  for (int w = 0; w < options.workers; ++w) ledger.join(w, 0);
  return ledger;
}

int64_t step(StepLedger& ledger, int worker, const std::string& position = "") {
  const auto claim = ledger.claim(worker, 0);
  EXPECT_EQ(claim.state, Claimed::kGranted);
  const auto commit = ledger.commit(worker, claim.ticket, position, 0);
  EXPECT_EQ(commit.state, Committed::kAccepted);
  return commit.step;
}

TEST(StepLedger, CountsStepsOfAllWorkers) {
  StepLedger ledger = begun({.workers = 2});
  EXPECT_EQ(step(ledger, 0), 1);
  EXPECT_EQ(step(ledger, 1), 2);
  EXPECT_EQ(step(ledger, 0), 3);
  EXPECT_EQ(ledger.steps_of(0), 2);
}

TEST(StepLedger, MakesExactlyTheStepsItWasAskedFor) {
  StepLedger ledger = begun({.workers = 2}, 3);
  step(ledger, 0);
  step(ledger, 0);
  const auto last = ledger.claim(0, 0);
  EXPECT_EQ(last.state, Claimed::kGranted);
  EXPECT_EQ(ledger.claim(1, 0).state, Claimed::kWait);
  EXPECT_FALSE(ledger.over(0));
  // The worker that has the last step dies: the other makes it.
  ledger.leave(0, 0);
  EXPECT_EQ(ledger.commit(0, last.ticket, "", 0).state, Committed::kLost);
  EXPECT_EQ(step(ledger, 1), 3);
  EXPECT_EQ(ledger.claim(1, 0).state, Claimed::kOver);
  EXPECT_EQ(ledger.why(0), "max_steps");
}

TEST(StepLedger, EndsWhenAllDataIsUsedUp) {
  StepLedger ledger = begun({.workers = 2});
  ledger.end_input(0);
  EXPECT_EQ(ledger.claim(0, 0).state, Claimed::kOver);
  EXPECT_FALSE(ledger.over(0));
  step(ledger, 1);
  ledger.end_input(1);
  EXPECT_TRUE(ledger.settled(0));
  EXPECT_EQ(ledger.why(0), "end of input");
}

TEST(StepLedger, NamesForWhomTheEndWaits) {
  StepLedger ledger = begun({.workers = 2, .rejoin_timeout = 10});
  EXPECT_THAT(ledger.awaited(0), ElementsAre(0, 1));
  ledger.end_input(1);
  EXPECT_THAT(ledger.awaited(0), ElementsAre(0));
  ASSERT_EQ(ledger.claim(0, 0).state, StepLedger::Claim::State::kGranted);
  ledger.stop("a hook");
  EXPECT_THAT(ledger.awaited(0), ElementsAre(0)) << "it makes a step";
  ledger.abandon(0);
  EXPECT_THAT(ledger.awaited(0), IsEmpty());
}

TEST(StepLedger, WaitsForALostWorkersShareWithinLimits) {
  StepLedger ledger = begun({.workers = 2, .rejoin_timeout = 10});
  step(ledger, 1, "one");
  ledger.leave(1, 5);
  ledger.end_input(0);
  EXPECT_FALSE(ledger.over(14.9));
  EXPECT_THAT(ledger.awaited(14.9), ElementsAre(1));
  EXPECT_THAT(ledger.unfinished(), ElementsAre(1));
  EXPECT_TRUE(ledger.over(15));
  ledger.join(1, 15);
  EXPECT_FALSE(ledger.over(100));
  EXPECT_EQ(ledger.position(1), "one");
}

TEST(StepLedger, StepsOfAWorkerAreFreeWhenItComesAgain) {
  StepLedger ledger = begun({.workers = 2}, 1);
  const auto claim = ledger.claim(0, 0);
  EXPECT_EQ(ledger.claim(1, 0).state, Claimed::kWait);
  ledger.join(0, 0);
  EXPECT_EQ(ledger.commit(0, claim.ticket, "", 0).state, Committed::kLost);
  EXPECT_FALSE(ledger.committed(0, claim.ticket));
  EXPECT_EQ(step(ledger, 1), 1);
}

TEST(StepLedger, NobodyRunsAwayFromTheSlowest) {
  StepLedger ledger = begun({.workers = 2, .max_staleness = 2});
  for (int i = 0; i < 3; ++i) step(ledger, 0);
  const auto ahead = ledger.claim(0, 0);
  EXPECT_EQ(ahead.state, Claimed::kWait);
  EXPECT_EQ(ahead.waits_for, 1);
  step(ledger, 1);
  step(ledger, 0);
  EXPECT_EQ(ledger.claim(0, 0).state, Claimed::kWait);
  // A worker that is gone, or has no data, holds up no other.
  ledger.leave(1, 0);
  step(ledger, 0);
  ledger.join(1, 0);
  step(ledger, 0);
  step(ledger, 0);
  ledger.end_input(1);
  for (int i = 0; i < 9; ++i) step(ledger, 0);
}

TEST(StepLedger, NothingIsCommittedWhileACheckpointIsCut) {
  StepLedger ledger = begun({.workers = 2});
  step(ledger, 0, "a");
  const auto claim = ledger.claim(1, 0);
  ledger.pause();
  EXPECT_EQ(ledger.commit(1, claim.ticket, "b", 0).state, Committed::kWait);
  EXPECT_EQ(ledger.commits(), 1);
  EXPECT_THAT(ledger.positions(), ElementsAre("a", ""));
  ledger.resume();
  EXPECT_EQ(ledger.commit(1, claim.ticket, "b", 0).step, 2);
}

TEST(StepLedger, MeasuresStaleness) {
  StepLedger ledger = begun({.workers = 2});
  const auto claim = ledger.claim(0, 0);
  for (int i = 0; i < 3; ++i) step(ledger, 1);
  EXPECT_EQ(ledger.commit(0, claim.ticket, "", 0).staleness, 3);
  step(ledger, 0);
  const StalenessSummary summary = ledger.staleness(0);
  EXPECT_EQ(summary.steps, 2);
  EXPECT_DOUBLE_EQ(summary.mean, 1.5);
  EXPECT_EQ(summary.p99, 3);
  EXPECT_EQ(ledger.staleness(1).max, 0);
}

// The staleness of weights that were fetched before the step was claimed, or after that.
TEST(StepLedger, StalenessCountsFromTheLookAtTheWeights) {
  StepLedger ledger = begun({.workers = 2});
  for (int i = 0; i < 3; ++i) step(ledger, 1);
  const auto early = ledger.claim(0, 0);
  EXPECT_EQ(ledger.commit(0, early.ticket, "", 0, /*looked=*/1).staleness, 2);
  const auto late = ledger.claim(0, 0);
  for (int i = 0; i < 3; ++i) step(ledger, 1);
  EXPECT_EQ(ledger.commit(0, late.ticket, "", 0, /*looked=*/6).staleness, 1);
  EXPECT_EQ(ledger.staleness(0).max, 2);
  // A step that was not made is in no worker's weights.
  const auto odd = ledger.claim(0, 0);
  EXPECT_EQ(ledger.commit(0, odd.ticket, "", 0, /*looked=*/99).staleness, 0);
}

TEST(StepLedger, BeginsAgainWhereACheckpointIs) {
  StepLedger ledger = begun({.workers = 2}, 10);
  step(ledger, 0, "late");
  const auto claim = ledger.claim(1, 0);
  ledger.begin({.generation = 2, .step = 5, .last_step = 10, .positions = {"x", "y"}}, 0);
  EXPECT_EQ(ledger.commit(1, claim.ticket, "", 0).state, Committed::kLost);
  EXPECT_EQ(ledger.step(), 5);
  EXPECT_EQ(ledger.position(1), "y");
  EXPECT_EQ(step(ledger, 1), 6);
  EXPECT_EQ(error_of([&] { ledger.begin({.generation = 2}, 0); }).kind(),
            ErrorKind::kInvalidArgument);
}

// --- several workers make an update together ---

TEST(StepLedger, AnUpdateIsMadeOfSoManyGradients) {
  StepLedger ledger = begun({.workers = 3, .aggregate = 2}, 2);
  int64_t ticket[3];
  for (int w = 0; w < 3; ++w) ticket[w] = ledger.claim(w, 0).ticket;
  EXPECT_EQ(ledger.commit(2, ticket[2], "two", 0).state, Committed::kWait);
  EXPECT_EQ(ledger.step(), 0);
  const auto second = ledger.commit(0, ticket[0], "zero", 0);
  EXPECT_EQ(second.state, Committed::kAccepted);
  EXPECT_EQ(second.step, 1);
  EXPECT_EQ(ledger.commit(2, ticket[2], "two", 0).step, 1);
  // The backup comes too late.
  EXPECT_EQ(ledger.commit(1, ticket[1], "one", 0).state, Committed::kDropped);
  EXPECT_EQ(ledger.dropped(), 1);
  EXPECT_THAT(ledger.positions(), ElementsAre("zero", "one", "two"));
  EXPECT_EQ(ledger.last_round().number, 1);
  ASSERT_EQ(ledger.last_round().parts.size(), 2u);
  EXPECT_EQ(ledger.last_round().parts[1].worker, 2);
  EXPECT_EQ(ledger.last_round().parts[1].ticket, ticket[2]);
}

TEST(StepLedger, AnUpdateDoesNotWaitForWhoWillNotCome) {
  StepLedger ledger = begun({.workers = 3, .aggregate = 3, .rejoin_timeout = 10});
  int64_t ticket[3];
  for (int w = 0; w < 3; ++w) ticket[w] = ledger.claim(w, 0).ticket;
  EXPECT_EQ(ledger.commit(0, ticket[0], "", 0).state, Committed::kWait);
  ledger.end_input(1);
  EXPECT_EQ(ledger.commit(0, ticket[0], "", 0).state, Committed::kWait);
  // The gradients that a lost worker had brought are dropped with it.
  EXPECT_EQ(ledger.claim(2, 0).state, Claimed::kGranted);
  ledger.leave(2, 5);
  EXPECT_EQ(ledger.commit(0, ticket[0], "", 14).state, Committed::kWait);
  EXPECT_EQ(ledger.commit(0, ticket[0], "", 15).state, Committed::kAccepted);
}

TEST(StepLedger, ACutIsAfterAWholeUpdate) {
  StepLedger ledger = begun({.workers = 2, .aggregate = 2});
  int64_t ticket[2];
  for (int w = 0; w < 2; ++w) ticket[w] = ledger.claim(w, 0).ticket;
  ledger.commit(0, ticket[0], "ahead", 0);
  ledger.pause();
  EXPECT_EQ(ledger.commit(1, ticket[1], "ahead", 0).state, Committed::kWait);
  EXPECT_THAT(ledger.positions(), ElementsAre("", ""));
  EXPECT_EQ(ledger.commits(), 0);
  ledger.resume();
  EXPECT_EQ(ledger.commit(1, ticket[1], "ahead", 0).state, Committed::kAccepted);
  EXPECT_THAT(ledger.positions(), ElementsAre("ahead", "ahead"));
}

TEST(StepLedger, WhenAllIsStoppedTheUpdateUnderWayIsMade) {
  StepLedger ledger = begun({.workers = 2, .aggregate = 2});
  const auto claim = ledger.claim(0, 0);
  EXPECT_EQ(ledger.commit(0, claim.ticket, "", 0).state, Committed::kWait);
  ledger.stop("a hook");
  EXPECT_EQ(ledger.commit(0, claim.ticket, "", 0).state, Committed::kAccepted);
  EXPECT_TRUE(ledger.settled(0));
}

// Workers at random paces that die and come back, whose data has known sizes: every seed ends, no
// step is lost or made twice, and no worker is further ahead than allowed.
TEST(StepLedger, EveryRandomRunEnds) {
  for (uint32_t seed = 1; seed <= 1000; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
    const int workers = 1 + draw(5);
    const bool by_steps = draw(2) == 0;
    const int64_t last = 1 + draw(60);
    const int64_t rows = 1 + draw(20);  // of each worker
    StepLedger::Options options{.workers = workers, .rejoin_timeout = 50};
    if (draw(2) == 0) {
      options.max_staleness = draw(4);
    } else if (draw(2) == 0) {
      options.aggregate = 1 + draw(workers);
    }
    StepLedger ledger(options);
    ledger.begin({.last_step = by_steps ? std::optional(last) : std::nullopt}, 0);
    struct Process {
      bool alive = false;
      int64_t ticket = 0;
      int64_t next = 0;  // example
      double back_at = 0;
    };
    std::vector<Process> processes(static_cast<size_t>(workers));
    std::map<int, std::multiset<int64_t>> trained;
    double now = 0;
    int64_t rounds = 0;
    bool paused = false;
    while (!ledger.settled(now)) {
      ASSERT_LT(++rounds, 100000) << "seed " << seed;
      now += 0.1;
      const int w = draw(workers);
      Process& process = processes[static_cast<size_t>(w)];
      if (!process.alive) {
        if (now < process.back_at) continue;
        ledger.join(w, now);
        const std::string at = ledger.position(w);
        const int64_t next = at.empty() ? 0 : std::stoll(at);
        // It may have died before it learned that its last step counts.
        for (int64_t row = process.next; row < next; ++row) trained[w].insert(row);
        process = {.alive = true, .next = next};
      } else if (draw(100) == 0) {
        ledger.leave(w, now);
        process = {.next = process.next, .back_at = now + draw(20)};
      } else if (draw(50) == 0) {
        paused ? ledger.resume() : ledger.pause();
        paused = !paused;
      } else if (process.ticket == 0) {
        if (!by_steps && process.next == rows) {
          ledger.end_input(w);
          continue;
        }
        const auto claim = ledger.claim(w, now);
        if (claim.state == Claimed::kGranted) process.ticket = claim.ticket;
      } else {
        const auto commit = ledger.commit(w, process.ticket, std::to_string(process.next + 1), now);
        if (commit.state == Committed::kWait) continue;
        ASSERT_NE(commit.state, Committed::kLost) << "seed " << seed;
        trained[w].insert(process.next++);
        process.ticket = 0;
      }
    }
    if (by_steps) {
      EXPECT_EQ(ledger.step(), last) << "seed " << seed;
    } else {
      for (int w = 0; w < workers; ++w) {
        for (int64_t row = 0; row < rows; ++row)
          EXPECT_EQ(trained[w].count(row), 1u) << "seed " << seed << " worker " << w;
      }
      EXPECT_THAT(ledger.unfinished(), IsEmpty()) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace muster::inline v0_1::plan
