// Members whose connections break: by the end of their process, or while all live.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "muster/plan/coordinator_state.h"
#include "muster/plan/internal/test_groups.h"

namespace muster::inline v0_1::plan {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(Liveness, AProcessThatHasEndedIsLostAtOnce) {
  CoordinatorState state = group_of(3);
  state.connected(caller(1));
  EXPECT_FALSE(state.is_disconnected(caller(1)));
  state.disconnected(caller(1), 1);
  EXPECT_TRUE(state.is_disconnected(caller(1)));
  state.process_ended(caller(1, 77));  // another process of the task
  EXPECT_FALSE(state.first_failure());
  state.process_ended(caller(1));
  ASSERT_TRUE(state.first_failure());
  EXPECT_EQ(state.first_failure()->task, "worker:0");
  EXPECT_EQ(state.first_failure()->reason, "its process has ended");
  EXPECT_FALSE(state.is_disconnected(caller(1)));
}

TEST(Liveness, TheEndOfAProcessThatHasLeftIsNoLoss) {
  CoordinatorState state = group_of(2);
  state.connected(caller(1));
  state.done(caller(1));
  state.leave(caller(1));
  state.disconnected(caller(1), 1);
  EXPECT_FALSE(state.is_disconnected(caller(1)));
  state.process_ended(caller(1));
  EXPECT_FALSE(state.first_failure());
}

// Members of `tasks`; each of `cut` loses its connections at second 1, and connects again.
CoordinatorState group_after_cut(int tasks, const std::vector<int>& cut) {
  CoordinatorState state = group_of(tasks);
  for (int rank = 0; rank < tasks; ++rank) {
    state.connected(caller(rank));
    state.heartbeat(caller(rank), Phase::kTraining, 7, 0.5);
  }
  for (const int rank : cut) {
    state.disconnected(caller(rank), 1);
    state.connected(caller(rank));
  }
  return state;
}

TEST(LostConnections, OfALivingMemberEndTheGroupAndNameIt) {
  for (const auto& [cut, guilty] : std::map<std::vector<int>, std::string>{
           {{2}, "worker 1 was lost, last heard of at step 7 (training): its connections broke: c"},
           {{0, 1, 2}, "chief was lost, last heard of at step 7 (training): its connections broke"},
           {{1, 2}, "connections between tasks broke at step 7 (training): closed"},
           {{}, "connections between tasks broke at step 7 (training): closed"}}) {
    CoordinatorState state = group_after_cut(3, cut);
    for (int rank : {0, 1, 2}) state.report_lost_connection(caller(rank), "closed", 1.02);
    state.tick(1.1);
    EXPECT_FALSE(state.first_failure()) << "not all connections were noticed";
    state.tick(1.3);
    ASSERT_TRUE(state.first_failure());
    EXPECT_THAT(state.first_failure()->describe(), StartsWith(guilty));
    EXPECT_EQ(state.first_failure()->kind, ErrorKind::kPeerLost);
  }
}

TEST(LostConnections, EndTheGroupAlsoIfAMemberDoesNotNotice) {
  CoordinatorState state = group_after_cut(3, {1});
  state.report_lost_connection(caller(0), "closed", 2);
  for (double now = 2; now < 6; now += 0.25) {
    for (int rank : {0, 1, 2}) state.heartbeat(caller(rank), Phase::kTraining, 7, now);
    state.tick(now);
    EXPECT_FALSE(state.first_failure()) << now;
  }
  state.tick(6.1);
  ASSERT_TRUE(state.first_failure());
  EXPECT_EQ(state.first_failure()->task, "worker:0");
}

TEST(LostConnections, OfAMemberThatIsFoundLostAreItsLoss) {
  CoordinatorState state = group_of(3);
  for (int rank : {0, 1, 2}) state.connected(caller(rank));
  state.disconnected(caller(2), 1);
  for (int rank : {0, 1}) state.report_lost_connection(caller(rank), "closed", 1.02);
  for (double now = 1.25; now < 3; now += 0.25) state.tick(now);
  EXPECT_FALSE(state.first_failure());
  state.tick(3.1);
  ASSERT_TRUE(state.first_failure());
  EXPECT_EQ(state.first_failure()->task, "worker:1");
  EXPECT_THAT(state.first_failure()->reason, HasSubstr("did not come back within 2.0 s"));
}

TEST(LostConnections, OfLongAgoAreNotToBlame) {
  CoordinatorState state = group_after_cut(3, {1});
  for (double now = 2; now <= 5; ++now) {
    for (int rank : {0, 1, 2}) state.heartbeat(caller(rank), Phase::kTraining, 7, now);
    state.tick(now);
  }
  for (int rank : {0, 1, 2}) state.report_lost_connection(caller(rank), "closed", 5);
  state.tick(5.3);
  ASSERT_TRUE(state.first_failure());
  EXPECT_EQ(state.first_failure()->task, "");
}

}  // namespace
}  // namespace muster::inline v0_1::plan
