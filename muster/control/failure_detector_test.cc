#include "muster/control/internal/failure_detector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::inline v0_1::control {
namespace {

using testing::HasSubstr;
using testing::Optional;

const JoinOptions kOptions{.address = "chief:1"};  // beats of 1 s, silence 6 s, grace 2 s

TEST(FailureDetector, ASilenceLosesTheCoordinator) {
  FailureDetector detector(kOptions, 0);
  double now = 0;
  while (!detector.why_lost(now) && now < 100) {
    now += detector.pause();
    now += detector.begin_beat(now);
    detector.unanswered(/*unreachable=*/false, now);
  }
  EXPECT_THAT(detector.why_lost(now), Optional(HasSubstr("at chief:1 did not answer for 6.")));
  EXPECT_LT(now, 6.3) << "the last beat does not outlast the time-out";
  detector.answered(now);
  EXPECT_FALSE(detector.why_lost(now));
}

TEST(FailureDetector, AClosedConnectionMayComeBackForAWhile) {
  FailureDetector detector(kOptions, 0);
  detector.begin_beat(1);
  detector.unanswered(/*unreachable=*/true, 1);
  EXPECT_DOUBLE_EQ(detector.pause(), kRetrySeconds) << "it asks again soon";
  EXPECT_FALSE(detector.why_lost(2.9));
  EXPECT_THAT(detector.why_lost(3.1), Optional(HasSubstr("closed its connections")));
  detector.answered(3.1);
  detector.unanswered(/*unreachable=*/true, 4);
  EXPECT_FALSE(detector.why_lost(5)) << "the grace begins anew";
}

TEST(FailureDetector, APauseOfThisProcessBlamesNobody) {
  FailureDetector detector(kOptions, 0);
  detector.begin_beat(1);
  detector.answered(1);
  detector.begin_beat(60);
  detector.unanswered(/*unreachable=*/false, 62);
  EXPECT_FALSE(detector.why_lost(62));
  EXPECT_TRUE(detector.why_lost(66.1));
}

// The silence of the coordinator is what it did not answer while it was asked, wherever this
// process stood still: between two beats, and while it waited for an answer.
TEST(FailureDetector, PausesOfThisProcessAreNoSilenceOfTheCoordinators) {
  FailureDetector detector(kOptions, 0);
  double now = 0, asked = 0;
  for (int beat = 0; !detector.why_lost(now) && beat < 100; ++beat) {
    const double stood_still = beat % 2 == 0 ? 3 : 0;
    now += detector.pause() + stood_still;
    asked += detector.pause();
    const double limit = detector.begin_beat(now);
    now += limit + (3 - stood_still);
    asked += limit;
    detector.unanswered(/*unreachable=*/false, now);
  }
  EXPECT_THAT(detector.why_lost(now), Optional(HasSubstr("did not answer for 6.")));
  EXPECT_GT(asked, 6);
  EXPECT_LT(asked, 7) << "it is lost all the same";
}

}  // namespace
}  // namespace muster::inline v0_1::control
