#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/control/internal/contact.h"

namespace muster::inline v0_1::control {
namespace {

using testing::HasSubstr;
using testing::Optional;

const JoinOptions kOptions{.address = "chief:1"};  // beats of 1 s, silence 6 s, grace 2 s

TEST(Contact, ASilenceLosesTheCoordinator) {
  Contact contact(kOptions, 0);
  double now = 0;
  while (!contact.why_lost(now) && now < 100) {
    now += contact.pause();
    now += contact.begin_beat(now);
    contact.unanswered(/*unreachable=*/false, now);
  }
  EXPECT_THAT(contact.why_lost(now), Optional(HasSubstr("at chief:1 did not answer for 6.")));
  EXPECT_LT(now, 6.3) << "the last beat does not outlast the time-out";
  contact.answered(now);
  EXPECT_FALSE(contact.why_lost(now));
}

TEST(Contact, AClosedConnectionMayComeBackForAWhile) {
  Contact contact(kOptions, 0);
  contact.begin_beat(1);
  contact.unanswered(/*unreachable=*/true, 1);
  EXPECT_DOUBLE_EQ(contact.pause(), kRetrySeconds) << "it asks again soon";
  EXPECT_FALSE(contact.why_lost(2.9));
  EXPECT_THAT(contact.why_lost(3.1), Optional(HasSubstr("closed its connections")));
  contact.answered(3.1);
  contact.unanswered(/*unreachable=*/true, 4);
  EXPECT_FALSE(contact.why_lost(5)) << "the grace begins anew";
}

TEST(Contact, APauseOfThisProcessBlamesNobody) {
  Contact contact(kOptions, 0);
  contact.begin_beat(1);
  contact.answered(1);
  contact.begin_beat(60);
  contact.unanswered(/*unreachable=*/false, 62);
  EXPECT_FALSE(contact.why_lost(62));
  EXPECT_TRUE(contact.why_lost(66.1));
}

}  // namespace
}  // namespace muster::inline v0_1::control
