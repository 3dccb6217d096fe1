#include "muster/control/internal/coordinator_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::inline v0_1::control {
namespace {

using testing::HasSubstr;
using testing::Optional;

const JoinOptions kOptions{.address = "chief:1"};  // beats of 1 s, silence 6 s, grace 2 s

TEST(CoordinatorWatch, ASilenceLosesTheCoordinator) {
  CoordinatorWatch watch(kOptions, 0);
  double now = 0;
  while (!watch.why_lost(now) && now < 100) {
    now += watch.pause();
    now += watch.begin_beat(now);
    watch.unanswered(/*unreachable=*/false, now);
  }
  EXPECT_THAT(watch.why_lost(now), Optional(HasSubstr("at chief:1 is lost: no heartbeat for 6.")));
  EXPECT_LT(now, 6.3) << "the last beat does not outlast the time-out";
  watch.answered(now);
  EXPECT_FALSE(watch.why_lost(now));
}

TEST(CoordinatorWatch, AClosedConnectionMayComeBackForAWhile) {
  CoordinatorWatch watch(kOptions, 0);
  watch.begin_beat(1);
  watch.unanswered(/*unreachable=*/true, 1);
  EXPECT_DOUBLE_EQ(watch.pause(), kRetrySeconds) << "it asks again soon";
  EXPECT_FALSE(watch.why_lost(2.9));
  EXPECT_THAT(watch.why_lost(3.1), Optional(HasSubstr("its connection closed")));
  watch.answered(3.1);
  watch.unanswered(/*unreachable=*/true, 4);
  EXPECT_FALSE(watch.why_lost(5)) << "the grace begins anew";
}

TEST(CoordinatorWatch, APauseOfThisProcessBlamesNobody) {
  CoordinatorWatch watch(kOptions, 0);
  watch.begin_beat(1);
  watch.answered(1);
  watch.begin_beat(60);
  watch.unanswered(/*unreachable=*/false, 62);
  EXPECT_FALSE(watch.why_lost(62));
  EXPECT_TRUE(watch.why_lost(66.1));
}

// The silence of the coordinator is the time without answers to requests, wherever this process
// stood still: between two beats, and while it waited for an answer.
TEST(CoordinatorWatch, PausesOfThisProcessAreNoSilenceOfTheCoordinators) {
  CoordinatorWatch watch(kOptions, 0);
  double now = 0, asked = 0;
  for (int beat = 0; !watch.why_lost(now) && beat < 100; ++beat) {
    const double stood_still = beat % 2 == 0 ? 3 : 0;
    now += watch.pause() + stood_still;
    asked += watch.pause();
    const double limit = watch.begin_beat(now);
    now += limit + (3 - stood_still);
    asked += limit;
    watch.unanswered(/*unreachable=*/false, now);
  }
  EXPECT_THAT(watch.why_lost(now), Optional(HasSubstr("no heartbeat for 6.")));
  EXPECT_GT(asked, 6);
  EXPECT_LT(asked, 7) << "it is lost all the same";
}

}  // namespace
}  // namespace muster::inline v0_1::control
