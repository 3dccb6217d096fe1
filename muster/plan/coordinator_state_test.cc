#include "muster/plan/coordinator_state.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/plan/internal/test_groups.h"

namespace muster::inline v0_1::plan {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using State = Verdict::State;

// --- joining ---

TEST(Join, CompletesWithTheLastMemberAndNamesTheMissing) {
  CoordinatorState state(options(3), 100);
  Verdict verdict = state.join(caller(0), 0, 3, 100);
  EXPECT_EQ(verdict.state, State::kWaiting);
  ASSERT_EQ(verdict.missing.size(), 2u);
  EXPECT_EQ(state.join(caller(2), 2, 3, 101).state, State::kWaiting);
  verdict = state.join(caller(0), 0, 3, 105);
  ASSERT_EQ(verdict.missing.size(), 1u);
  EXPECT_EQ(verdict.missing[0].describe(), "worker 0 at 10.0.0.1:2222 (5 s)");
  EXPECT_EQ(state.join(caller(1), 1, 3, 106).state, State::kReady);
  EXPECT_EQ(state.join(caller(0), 0, 3, 106).state, State::kReady);
  EXPECT_EQ(state.join(caller(2), 2, 3, 106).state, State::kReady);
  EXPECT_EQ(state.epoch(), 1);
  EXPECT_TRUE(state.missing(106).empty());
}

TEST(Join, AskingAgainIsNoSecondMember) {
  CoordinatorState state(options(2), 0);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(state.join(caller(0), 0, 2, i).state, State::kWaiting);
  EXPECT_EQ(state.epoch(), 0);
}

TEST(Join, ASilentJoinerIsForgotten) {
  CoordinatorState state(options(2), 0);
  state.join(caller(1), 1, 2, 0);
  state.tick(3);
  EXPECT_EQ(state.missing(3).size(), 1u);
  state.tick(5.9);
  state.tick(6.1);
  EXPECT_EQ(state.missing(6.1).size(), 2u);
  EXPECT_EQ(state.join(caller(0), 0, 2, 7).state, State::kWaiting) << "no group with a dead member";
}

TEST(Join, AnAbandonedJoinIsForgottenAtOnce) {
  CoordinatorState state(options(2), 0);
  state.join(caller(1), 1, 2, 0);
  state.abandon_join(caller(1, 99));
  EXPECT_EQ(state.missing(0).size(), 1u) << "of another process";
  state.abandon_join(caller(1));
  EXPECT_EQ(state.missing(0).size(), 2u);
  EXPECT_EQ(state.join(caller(1, 2), 1, 2, 0.1).state, State::kWaiting);
  EXPECT_EQ(state.join(caller(0), 0, 2, 0.2).state, State::kReady);
}

// A task failed before it could join; the others receive the reason at once, without a time-out.
TEST(Join, TasksThatWaitAreNotifiedOfOneThatWillNotCome) {
  CoordinatorState state(options(3), 0);
  EXPECT_EQ(state.join(caller(0), 0, 3, 0).state, State::kWaiting);
  const auto will_not_come = [&](const Caller& who, const Seat& seat, double now) {
    state.fail_to_join(who, seat, ErrorKind::kNotFound, "no data", now);
  };
  will_not_come({"nobody:0", 1}, {1, 3}, 0.5);
  will_not_come({"worker:0", 1}, {1, 2}, 0.5);
  will_not_come({"worker:0", 1}, {1, 3, {"a:1", "elsewhere:2", "c:3"}}, 0.5);
  EXPECT_EQ(state.join(caller(0), 0, 3, 1).state, State::kWaiting)
      << "unknown tasks are not believed";
  will_not_come(caller(0, 9), {0, 3}, 1);
  EXPECT_EQ(state.join(caller(2), 2, 3, 1).state, State::kWaiting)
      << "nor a second process of a task that is joining";
  will_not_come(caller(1), {1, 3}, 1.5);
  for (const int rank : {0, 2}) {
    const Verdict verdict = state.join(caller(rank), rank, 3, 2);
    ASSERT_EQ(verdict.state, State::kFailed);
    EXPECT_THAT(verdict.failure->describe(),
                AllOf(HasSubstr("worker 0 failed while joining"), HasSubstr("no data")));
  }
  // It comes after all.
  for (const int rank : {1, 0})
    EXPECT_EQ(state.join(caller(rank, 2), rank, 3, 3).state, State::kWaiting);
  EXPECT_EQ(state.join(caller(2, 2), 2, 3, 4).state, State::kReady);
  // A second process of that name ends nothing.
  will_not_come(caller(1, 9), {1, 3}, 4.5);
  EXPECT_FALSE(state.first_failure());
  EXPECT_EQ(state.join(caller(2, 2), 2, 3, 5).state, State::kReady);
}

// A chief that cannot start need not wait for any task then.
TEST(Join, AllKnowOfAStartFailureWhenEachToldOfItsOwnOrHeardOfOne) {
  CoordinatorState state(options(3), 0);
  const auto will_not_come = [&](int rank, double now) {
    state.fail_to_join(caller(rank), {rank, 3}, ErrorKind::kNotFound, "no data", now);
  };
  EXPECT_EQ(state.join(caller(2), 2, 3, 0).state, State::kWaiting);
  will_not_come(0, 1);
  will_not_come(1, 1);
  EXPECT_FALSE(state.all_know_of_start_failure()) << "worker 1 has not asked since";
  EXPECT_EQ(state.join(caller(2), 2, 3, 2).state, State::kFailed);
  EXPECT_TRUE(state.all_know_of_start_failure());
  // They come after all.
  for (const int rank : {0, 1}) (void)state.join(caller(rank, 2), rank, 3, 3);
  EXPECT_FALSE(state.all_know_of_start_failure());
}

TEST(Join, RefusesAnotherCluster) {
  struct Case {
    Caller who;
    int rank, world;
    std::string says;
  };
  for (const Case& c :
       {Case{caller(1), 1, 3, "worker 0 counts 3 tasks in the group, the chief counts 2"},
        Case{caller(2), 1, 2,
             "worker 1 joined with rank 1, where the chief's cluster has worker 0"},
        Case{caller(2), 2, 2, "worker 1 joined with rank 2, where the chief's cluster has no task"},
        Case{caller(1), -1, 2, "as an observer"}}) {
    CoordinatorState state(options(2), 0);
    Verdict verdict = state.join(c.who, c.rank, c.world, 0);
    ASSERT_EQ(verdict.state, State::kRefused) << c.says;
    EXPECT_THAT(verdict.refusal->message(), HasSubstr(c.says));
    EXPECT_THAT(verdict.refusal->hint(), HasSubstr("TF_CONFIG"));
    EXPECT_EQ(state.missing(0).size(), 2u);
  }
}

TEST(Join, TwoLiveProcessesWithOneNameAreDistinguished) {
  CoordinatorState state(options(2), 0);
  double now = 0;
  Verdict second;
  for (; now < 8; now += 0.5) {
    EXPECT_EQ(state.join(caller(1, 1), 1, 2, now).state, State::kWaiting);
    second = state.join(caller(1, 2), 1, 2, now);
    state.tick(now);
    if (second.state != State::kWaiting) break;
  }
  ASSERT_EQ(second.state, State::kRefused);
  EXPECT_GT(now, 6.0);
  EXPECT_THAT(second.refusal->message(), HasSubstr("another live process already is worker 0"));
}

TEST(Join, ATwinOfARunningMemberHarmsNobody) {
  CoordinatorState state = group_of(2);
  state.connected(caller(1));
  Verdict twin;
  for (double now = 0; now < 8; now += 0.5) {
    for (int rank : {0, 1}) state.heartbeat(caller(rank), Phase::kTraining, 3, now);
    twin = state.join(caller(1, 2), 1, 2, now);
    state.tick(now);
    if (twin.state == State::kRefused) break;
  }
  EXPECT_EQ(twin.state, State::kRefused);
  EXPECT_FALSE(state.first_failure());
}

TEST(Join, ARestartWhileTheGroupRunsFailsItAndTheNextGroupHasAHigherEpoch) {
  CoordinatorState state = group_of(3);
  state.store().set("k", "v");
  state.heartbeat(caller(2), Phase::kTraining, 40, 1);
  state.connected(caller(2));
  state.disconnected(caller(2), 1.5);
  EXPECT_EQ(state.join(caller(2, 2), 2, 3, 1.6).state, State::kWaiting);
  ASSERT_TRUE(state.first_failure());
  EXPECT_EQ(state.first_failure()->describe(),
            "worker 1 was lost, last heard of at step 40 (training): the task restarted while the "
            "group was running");
  EXPECT_EQ(state.heartbeat(caller(0), Phase::kTraining, 40, 2).failure->task, "worker:1");

  EXPECT_EQ(state.join(caller(0, 2), 0, 3, 3).state, State::kWaiting);
  EXPECT_EQ(state.join(caller(1, 2), 1, 3, 4).state, State::kReady);
  EXPECT_EQ(state.epoch(), 2);
  EXPECT_FALSE(state.first_failure());
  EXPECT_FALSE(state.store().get("k")) << "a new group starts with an empty store";
  for (int rank : {0, 1, 2})
    EXPECT_FALSE(state.heartbeat(caller(rank, 2), Phase::kBuilding, -1, 5).failure);
  EXPECT_EQ(state.heartbeat(caller(1), Phase::kTraining, 40, 5).failure->task, "worker:1")
      << "a member of the old group still learns why it ended";
}

TEST(Join, FirstEpochMayBeGiven) {
  CoordinatorOptions given = options(1);
  given.first_epoch = 1700;
  CoordinatorState state(given, 0);
  EXPECT_EQ(state.join(caller(0), 0, 1, 0).state, State::kReady);
  EXPECT_EQ(state.epoch(), 1700);
}

TEST(Join, BadOptionsAreRefused) {
  EXPECT_THROW(CoordinatorState({}, 0), Error);
  EXPECT_THROW(CoordinatorState({.roster = {{"worker:0", ""}, {"worker:0", ""}}}, 0), Error);
  EXPECT_THROW(CoordinatorState(options(1, 0), 0), Error);
  EXPECT_THROW(CoordinatorState(options(1, 1, -1), 0), Error);
  EXPECT_THROW(CoordinatorState(options(1, 1, 1, 0), 0), Error);
}

// --- liveness ---

TEST(Liveness, SilenceIsNamedWithStepAndPhase) {
  CoordinatorState state = group_of(2);
  state.heartbeat(caller(1), Phase::kTraining, 120, 0);
  for (double now = 0; now <= 6; now += 1) {
    state.tick(now);
    EXPECT_FALSE(state.heartbeat(caller(0), Phase::kTraining, 120, now).failure) << now;
  }
  state.tick(6.5);
  HeartbeatReply reply = state.heartbeat(caller(0), Phase::kTraining, 120, 6.5);
  ASSERT_TRUE(reply.failure);
  EXPECT_EQ(reply.failure->describe(),
            "worker 0 was lost, last heard of at step 120 (training): no heartbeat for 6.5 s");
  EXPECT_EQ(reply.failure->rank, 1);
}

TEST(Liveness, ABrokenConnectionIsNoticedBeforeTheSilence) {
  CoordinatorState state = group_of(2);
  for (int rank : {0, 1}) state.connected(caller(rank));
  EXPECT_EQ(state.connections(), 2);
  state.disconnected(caller(1), 1);
  EXPECT_EQ(state.connections(), 1);
  state.tick(2.9);
  EXPECT_FALSE(state.first_failure());
  state.heartbeat(caller(0), Phase::kBuilding, -1, 3.1);
  state.tick(3.1);
  ASSERT_TRUE(state.first_failure());
  EXPECT_EQ(state.first_failure()->task, "worker:0");
  EXPECT_THAT(state.first_failure()->describe(),
              AllOf(HasSubstr("while building"), HasSubstr("connection closed")));
}

TEST(Liveness, AConnectionMayComeBack) {
  CoordinatorState state = group_of(2);
  state.disconnected(caller(1), 1);
  state.connected(caller(1));
  // The end of an older connection, noticed late, is not the end of this one.
  state.connected(caller(1));
  state.disconnected(caller(1), 1);
  state.heartbeat(caller(0), Phase::kTraining, 1, 4);
  state.heartbeat(caller(1), Phase::kTraining, 1, 4);
  state.tick(1.5);
  state.tick(4);
  EXPECT_FALSE(state.first_failure());
}

TEST(Liveness, AMemberWatchesOverFourConnectionsAtMost) {
  CoordinatorState state = group_of(2);
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(state.may_connect(caller(0))) << i;
    state.connected(caller(0));
  }
  EXPECT_FALSE(state.may_connect(caller(0)));
  EXPECT_TRUE(state.may_connect(caller(1)));
  state.disconnected(caller(0), 1);
  EXPECT_TRUE(state.may_connect(caller(0)));
}

TEST(Liveness, OnlyTheFirstFailureIsKept) {
  CoordinatorState state = group_of(3);
  state.heartbeat(caller(2), Phase::kTraining, 7, 0);
  state.fail(caller(2), ErrorKind::kNonFinite, "loss is nan");
  state.fail(caller(1), ErrorKind::kPeerLost, "collective failed");
  state.tick(20);
  EXPECT_EQ(state.first_failure()->describe(),
            "worker 1 failed at step 7 (training): NonFinite: loss is nan");
}

TEST(Liveness, AStopIsNotCalledAFailure) {
  CoordinatorState state = group_of(2);
  state.heartbeat(caller(0), Phase::kEvaluating, 20, 0);
  state.fail(caller(0), ErrorKind::kCancelled, "evaluation was stopped after 3 batches");
  EXPECT_EQ(state.first_failure()->describe(),
            "chief was stopped at step 20 (evaluating): evaluation was stopped after 3 batches");
}

TEST(Liveness, TheCoordinatorsOwnPauseBlamesNobody) {
  CoordinatorState state = group_of(2);
  for (double now = 0; now < 3; now += 0.5) {
    for (int rank : {0, 1}) state.heartbeat(caller(rank), Phase::kTraining, 1, now);
    state.tick(now);
  }
  state.tick(60);  // stopped for 57 s
  EXPECT_FALSE(state.first_failure());
  for (double now = 60; now < 67; now += 0.5) {
    state.heartbeat(caller(0), Phase::kTraining, 1, now);
    state.tick(now);
  }
  ASSERT_TRUE(state.first_failure()) << "but the clock runs on from there";
  EXPECT_EQ(state.first_failure()->task, "worker:0");
}

TEST(Liveness, AnUnknownTaskIsToldSo) {
  CoordinatorState state = group_of(2);
  HeartbeatReply reply = state.heartbeat(caller(1, 77), Phase::kTraining, 1, 0);
  ASSERT_TRUE(reply.failure);
  EXPECT_THAT(reply.failure->reason, HasSubstr("does not know this process"));
  EXPECT_EQ(state.wait(caller(1, 77), {"k"}).state, State::kFailed);
  EXPECT_EQ(state.barrier(caller(1, 77), "b", 0, 0).state, State::kFailed);
  state.fail(caller(1, 77), ErrorKind::kInternal, "x");
  EXPECT_FALSE(state.first_failure());
}

TEST(Liveness, ObserversComeAndGo) {
  CoordinatorState state = group_of(2);
  Caller evaluator{"evaluator:0", 5};
  EXPECT_EQ(state.join(evaluator, -1, 2, 0).state, State::kReady);
  EXPECT_FALSE(state.heartbeat(evaluator, Phase::kEvaluating, 3, 0).all_done);
  EXPECT_EQ(state.barrier(evaluator, "b", 0, 0).state, State::kRefused);
  for (double now = 0; now < 10; now += 1) {
    for (int rank : {0, 1}) state.heartbeat(caller(rank), Phase::kTraining, 1, now);
    state.tick(now);
  }
  EXPECT_FALSE(state.first_failure()) << "a lost observer fails nobody";
  EXPECT_EQ(state.join({"evaluator:0", 6}, -1, 2, 10).state, State::kReady);
  for (int rank : {0, 1}) state.done(caller(rank));
  EXPECT_TRUE(state.heartbeat({"evaluator:0", 6}, Phase::kEvaluating, 3, 11).all_done);
}

// --- barriers ---

TEST(Barrier, CompletesWhenAllArrived) {
  CoordinatorState state = group_of(3);
  EXPECT_EQ(state.barrier(caller(0), "eval", 0, 1).state, State::kWaiting);
  EXPECT_EQ(state.barrier(caller(0), "eval", 0, 2).state, State::kWaiting)
      << "arriving twice counts once";
  Verdict verdict = state.barrier(caller(2), "eval", 0, 4);
  ASSERT_EQ(verdict.missing.size(), 1u);
  EXPECT_EQ(verdict.missing[0].describe(), "worker 0 at 10.0.0.1:2222, while building (3 s)");
  EXPECT_EQ(state.barrier(caller(1), "eval", 0, 5).state, State::kReady);
  for (int rank : {0, 2}) EXPECT_EQ(state.barrier(caller(rank), "eval", 0, 6).state, State::kReady);
  EXPECT_EQ(state.barrier(caller(0), "eval", 1, 7).state, State::kWaiting)
      << "the next use starts empty";
}

TEST(Barrier, BusyPeersAreWaitedForAsLongAsTheyLive) {
  for (Phase phase : {Phase::kEvaluating, Phase::kSaving, Phase::kBuilding}) {
    CoordinatorState state = group_of(2);
    for (double now = 0; now < 1000; now += 1) {
      state.heartbeat(caller(0), phase, 10, now);
      state.heartbeat(caller(1), Phase::kWaiting, 10, now);
      state.tick(now);
      ASSERT_EQ(state.barrier(caller(1), "b", 0, now).state, State::kWaiting)
          << to_string(phase) << now;
    }
    for (double now = 1000; now < 1008; now += 1) {  // it dies
      state.heartbeat(caller(1), Phase::kWaiting, 10, now);
      state.tick(now);
    }
    Verdict verdict = state.barrier(caller(1), "b", 0, 1008);
    ASSERT_EQ(verdict.state, State::kFailed);
    EXPECT_EQ(verdict.failure->task, "chief:0");
  }
}

TEST(Barrier, ATrainingPeerMustMakeProgress) {
  CoordinatorState state = group_of(2);
  auto run = [&](double from, double to, auto step) {
    for (double now = from; now < to; now += 1) {
      state.heartbeat(caller(0), Phase::kWaiting, 10, now);
      state.heartbeat(caller(1), Phase::kTraining, step(now), now);
      state.tick(now);
      if (state.barrier(caller(0), "b", 0, now).state == State::kFailed) return now;
    }
    return to;
  };
  EXPECT_EQ(run(0, 200, [](double now) { return static_cast<int64_t>(now); }), 200)
      << "steps are progress";
  double ended = run(200, 300, [](double) { return 199; });
  EXPECT_GT(ended, 228);
  EXPECT_LT(ended, 233);
  EXPECT_EQ(state.first_failure()->kind, ErrorKind::kTimeout);
  EXPECT_THAT(state.first_failure()->describe(),
              AllOf(HasSubstr("worker 0 failed at step 199 (training)"),
                    HasSubstr("no progress for"), HasSubstr("chief waited at barrier \"b\"")));
}

TEST(Barrier, ASaveHasALimitOfItsOwn) {
  CoordinatorOptions given = options(3);
  given.save_timeout = 100;  // progress: 30
  CoordinatorState state = group_of(3, given);
  double now = 0;
  const auto run = [&](double until, Phase chief) {
    for (; now < until; now += 1) {
      state.heartbeat(caller(0), chief, 10, now);
      for (int rank : {1, 2}) state.heartbeat(caller(rank), Phase::kWaiting, 10, now);
      state.tick(now);
      if (state.barrier(caller(1), "saved", 0, now).state == State::kFailed) return true;
    }
    return false;
  };
  EXPECT_FALSE(run(500, Phase::kEvaluating)) << "counted from where it begins to save";
  state.barrier(caller(2), "saved", 0, now);
  EXPECT_TRUE(run(700, Phase::kSaving));
  EXPECT_GT(now, 600);
  EXPECT_LT(now, 604);
  EXPECT_EQ(state.first_failure()->kind, ErrorKind::kTimeout);
  EXPECT_THAT(state.first_failure()->describe(),
              AllOf(HasSubstr("chief failed at step 10 (saving)"),
                    HasSubstr("saving a checkpoint took more than 10"),
                    HasSubstr("worker 0 waited at barrier \"saved\"")));
}

TEST(Barrier, TheProgressClockStandsStillWhileSomeoneIsBusy) {
  CoordinatorState state = group_of(3);
  for (double now = 0; now < 100; now += 1) {  // worker 1 can take no step: the chief saves
    state.heartbeat(caller(0), Phase::kSaving, 10, now);
    state.heartbeat(caller(1), Phase::kWaiting, 10, now);
    state.heartbeat(caller(2), Phase::kTraining, 10, now);
    state.tick(now);
    ASSERT_EQ(state.barrier(caller(1), "b", 0, now).state, State::kWaiting);
  }
}

TEST(Barrier, ThoseWhoCannotComeEndTheWait) {
  CoordinatorState state = group_of(2);
  state.done(caller(1));
  Verdict verdict = state.barrier(caller(0), "b", 0, 0);
  ASSERT_EQ(verdict.state, State::kRefused);
  EXPECT_THAT(verdict.refusal->message(), HasSubstr("worker 0 is done and will not come"));
}

TEST(Barrier, CrossedBarriersEndTheWait) {
  CoordinatorState state = group_of(2);
  EXPECT_EQ(state.barrier(caller(0), "save", 0, 0).state, State::kWaiting);
  Verdict verdict = state.barrier(caller(1), "eval", 0, 0);
  ASSERT_EQ(verdict.state, State::kRefused);
  EXPECT_THAT(verdict.refusal->message(), AllOf(HasSubstr("\"save\""), HasSubstr("\"eval\"")));
}

// --- model, end, store ---

TEST(Model, TheSameInAnyOrderIsAgreed) {
  CoordinatorState state = group_of(2);
  EXPECT_EQ(state.declare_model(caller(0), {"a [2] float32", "b [3] float32"}).state,
            State::kReady);
  EXPECT_EQ(state.declare_model(caller(1), {"b [3] float32", "a [2] float32"}).state,
            State::kReady);
  EXPECT_FALSE(state.first_failure());
}

TEST(Model, ADifferenceNamesBothTasksAndTheVariable) {
  CoordinatorState state = group_of(2);
  state.declare_model(caller(0), {"dense/kernel [64,10] float32", "dense/bias [10] float32"});
  Verdict verdict =
      state.declare_model(caller(1), {"dense/kernel [64,12] float32", "dense/bias [10] float32"});
  ASSERT_EQ(verdict.state, State::kFailed);
  EXPECT_THAT(
      verdict.failure->reason,
      AllOf(HasSubstr("only worker 0 has [dense/kernel [64,12] float32]"),
            HasSubstr("only chief has [dense/kernel [64,10] float32]"), Not(HasSubstr("bias"))));
  EXPECT_EQ(verdict.failure->kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(state.heartbeat(caller(0), Phase::kBuilding, -1, 0).failure->task, "worker:0");
}

TEST(Model, ALongDifferenceIsCut) {
  CoordinatorState state = group_of(2);
  state.declare_model(caller(0), {});
  Verdict verdict = state.declare_model(caller(1), {"a", "b", "c", "d", "e", "f"});
  EXPECT_THAT(verdict.failure->reason,
              AllOf(HasSubstr("[a; b; c; d] and 2 more"), HasSubstr("only chief has nothing")));
}

TEST(End, ATaskThatComesForTheNextGroupHoldsUpNoOther) {
  CoordinatorState state = group_of(2);
  for (int rank : {0, 1}) {
    state.done(caller(rank));
    state.leave(caller(rank));
  }
  Caller again = caller(1);
  again.incarnation += 100;
  state.join(again, 1, 2, 1);
  EXPECT_TRUE(state.drained());
  EXPECT_FALSE(state.first_failure());
}

// As a program that trains again does while its chief is still at the end of the first training.
TEST(End, ATaskThatWasDoneAndComesAgainWaitsForTheOthers) {
  CoordinatorState state = group_of(2);
  state.done(caller(1));
  state.leave(caller(1));
  Caller again = caller(1);
  again.incarnation += 100;
  EXPECT_EQ(state.join(again, 1, 2, 1).state, Verdict::State::kWaiting);
  EXPECT_FALSE(state.first_failure());
  state.done(caller(0));
  state.leave(caller(0));
  EXPECT_TRUE(state.drained());
  EXPECT_EQ(state.join(again, 1, 2, 2).state, Verdict::State::kWaiting);
  Caller chief = caller(0);
  chief.incarnation += 100;
  EXPECT_EQ(state.join(chief, 0, 2, 3).state, Verdict::State::kReady);
  EXPECT_EQ(state.join(again, 1, 2, 4).state, Verdict::State::kReady);
}

TEST(End, DoneThenGoodbyeIsNoLoss) {
  CoordinatorState state = group_of(2);
  state.done(caller(1));
  EXPECT_FALSE(state.all_done());
  state.leave(caller(1));
  state.tick(3);
  state.heartbeat(caller(0), Phase::kTraining, 5, 3);
  state.tick(5);
  EXPECT_FALSE(state.first_failure());
  EXPECT_FALSE(state.drained());
  state.done(caller(0));
  EXPECT_TRUE(state.all_done());
  state.leave(caller(0));
  EXPECT_TRUE(state.drained());
  EXPECT_FALSE(state.first_failure());
}

TEST(End, ADoneMemberThatDiesIsNoLoss) {
  CoordinatorState state = group_of(2);
  state.done(caller(1));
  for (double now = 0; now < 20; now += 1) {
    state.heartbeat(caller(0), Phase::kTraining, 5, now);
    state.tick(now);
  }
  EXPECT_FALSE(state.first_failure());
}

TEST(End, LeavingEarlyFailsTheGroup) {
  CoordinatorState state = group_of(2);
  state.heartbeat(caller(1), Phase::kTraining, 12, 0);
  state.leave(caller(1));
  EXPECT_EQ(
      state.first_failure()->describe(),
      "worker 0 was lost, last heard of at step 12 (training): it left before the run was done");
}

TEST(Store, WaitsEndWithTheKeysOrTheGroup) {
  CoordinatorState state = group_of(2);
  EXPECT_EQ(state.wait(caller(0), {"a", "b"}).state, State::kWaiting);
  state.store().set("a", "");
  EXPECT_EQ(state.wait(caller(0), {"a", "b"}).state, State::kWaiting);
  state.store().set("b", "");
  EXPECT_EQ(state.wait(caller(0), {"a", "b"}).state, State::kReady);
  state.fail(caller(1), ErrorKind::kInternal, "bug");
  EXPECT_EQ(state.wait(caller(0), {"c"}).failure->task, "worker:0");
}

}  // namespace
}  // namespace muster::inline v0_1::plan
