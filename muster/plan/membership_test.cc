#include "muster/plan/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::inline v0_1::plan {
namespace {

using testing::HasSubstr;

constexpr MembershipRules kPlain{.heartbeat_timeout = 6};
constexpr MembershipRules kInStep{
    .heartbeat_timeout = 6, .reconnect_timeout = 2, .twins_wait = true};

Caller process(uint64_t incarnation) { return {"worker:0", incarnation}; }

TEST(Membership, AskingAgainIsHeardAndIsNoSecondMember) {
  Membership members(kPlain, 0);
  EXPECT_EQ(members.join(process(1), 0), Membership::Admission::kAdmitted);
  EXPECT_EQ(members.join(process(1), 5), Membership::Admission::kKnown);
  EXPECT_EQ(members.here(), 1);
  EXPECT_TRUE(members.find_lost(2).empty());
  EXPECT_TRUE(members.find_lost(5).empty());
  EXPECT_TRUE(members.find_lost(8).empty());
  EXPECT_TRUE(members.find_lost(11).empty());
  EXPECT_EQ(members.find_lost(11.5).size(), 1u);
}

TEST(Membership, ANewcomerTakesThePlaceAtOnceWhereItEndsNothing) {
  Membership members(kPlain, 0);
  members.join(process(1), 0);
  EXPECT_EQ(members.join(process(2), 1), Membership::Admission::kRestarted);
  EXPECT_FALSE(members.is_here(process(1)));
  EXPECT_TRUE(members.is_here(process(2)));
  EXPECT_FALSE(members.heartbeat(process(1), 2)) << "what an earlier process says counts no more";
  EXPECT_FALSE(members.goodbye(process(1)));
  EXPECT_FALSE(members.lose(process(1), "its process ended"));
  EXPECT_TRUE(members.is_here("worker:0"));
}

TEST(Membership, ATwinOfALiveMemberWaitsAndIsRefused) {
  Membership members(kInStep, 0);
  members.join(process(1), 0);
  members.connected(process(1));
  Membership::Admission answer = Membership::Admission::kTooEarly;
  double now = 0;
  for (; answer == Membership::Admission::kTooEarly && now < 20; now += 0.5) {
    members.heartbeat(process(1), now);
    EXPECT_TRUE(members.find_lost(now).empty());
    answer = members.join(process(2), now);
  }
  EXPECT_EQ(answer, Membership::Admission::kRefused);
  EXPECT_NEAR(now, 7, 0.1);
  EXPECT_TRUE(members.is_here(process(1)));
}

TEST(Membership, ATwinOfASilentMemberIsItsRestart) {
  Membership members(kInStep, 0);
  members.join(process(1), 0);
  members.connected(process(1));
  for (const double now : {2.0, 4.0, 6.0})
    EXPECT_EQ(members.join(process(2), now), Membership::Admission::kTooEarly);
  EXPECT_EQ(members.join(process(2), 6.1), Membership::Admission::kRestarted);
}

TEST(Membership, WhereMembersHoldConnectionsOneWithoutIsNotInTheWay) {
  Membership members(kInStep, 0);
  members.join(process(1), 0);
  EXPECT_EQ(members.knock(process(2), 1), Membership::Admission::kRestarted);
  EXPECT_EQ(members.find("worker:0")->incarnation, 1u) << "who knocks does not come in";
  EXPECT_EQ(members.find("worker:0")->state, Membership::State::kLost);
}

TEST(Membership, ALossSaysWhoWhereAndWhy) {
  Membership members(kInStep, 0);
  members.join(process(1), 0);
  members.heartbeat(process(1), 1, MemberPlace{Phase::kTraining, 12});
  members.connected(process(1));
  members.disconnected(process(1), 2);
  EXPECT_TRUE(members.find_lost(3).empty());
  const auto lost = members.find_lost(4.5);
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].describe(),
            "worker 0 was lost, last heard of at step 12 (training): its connection closed and did "
            "not come back within 2.0 s");
  EXPECT_TRUE(members.find_lost(5).empty()) << "once";
  members.join(process(2), 5);
  EXPECT_THAT(members.lose(process(2), "its process ended")->describe(),
              HasSubstr("while joining: its process ended"));
}

TEST(Membership, AConnectionThatComesBackInTimeIsNoLoss) {
  Membership members(kInStep, 0);
  members.join(process(1), 0);
  members.connected(process(1));
  members.disconnected(process(1), 1);
  members.connected(process(1));
  // The end of an older connection shows late.
  members.connected(process(1));
  members.disconnected(process(1), 2);
  EXPECT_TRUE(members.find_lost(2.5).empty());
  EXPECT_TRUE(members.find_lost(5).empty());
}

TEST(Membership, ATaskThatIsDoneCannotBeLost) {
  for (const auto end :
       {+[](Membership& members) { return !members.goodbye(process(1)).has_value(); },
        +[](Membership& members) { return members.lose(process(1), "it ended").has_value(); },
        +[](Membership& members) { return !members.find_lost(6.5).empty(); }}) {
    Membership members(kPlain, 0);
    members.join(process(1), 0);
    members.done(process(1));
    for (const double now : {2.0, 4.0}) EXPECT_TRUE(members.find_lost(now).empty());
    EXPECT_TRUE(members.is_here("worker:0"));
    EXPECT_FALSE(end(members));
    EXPECT_EQ(members.find("worker:0")->state, Membership::State::kLeft);
  }
}

TEST(Membership, GoodbyeTellsWhetherItWasDone) {
  Membership members(kPlain, 0);
  members.join(process(1), 0);
  EXPECT_EQ(members.goodbye(process(1)), Membership::State::kHere);
  EXPECT_EQ(members.goodbye(process(1)), std::nullopt);
  EXPECT_EQ(members.join(process(2), 0), Membership::Admission::kAdmitted);
  members.done(process(2));
  EXPECT_EQ(members.goodbye(process(2)), Membership::State::kDone);
}

TEST(Membership, AStandstillOfTheHostIsNobodysSilence) {
  Membership members(kPlain, 0);
  members.join(process(1), 0);
  EXPECT_TRUE(members.find_lost(2).empty());
  EXPECT_EQ(members.take_standstill(), 0);
  EXPECT_TRUE(members.find_lost(60).empty());
  EXPECT_EQ(members.take_standstill(), 58);
  EXPECT_TRUE(members.find_lost(62).empty());
  EXPECT_TRUE(members.find_lost(64).empty()) << "silent for 6 s, of those in which somebody looked";
  EXPECT_EQ(members.find_lost(64.5).size(), 1u);
}

TEST(Membership, AStandstillOfTheHostLetsNoTwinIn) {
  Membership members(kInStep, 0);
  members.join(process(1), 0);
  members.connected(process(1));
  EXPECT_EQ(members.join(process(2), 60), Membership::Admission::kTooEarly);
  EXPECT_TRUE(members.is_here(process(1)));
}

}  // namespace
}  // namespace muster::inline v0_1::plan
