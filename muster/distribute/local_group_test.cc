#include "muster/distribute/internal/local_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "muster/base/error_of.h"

namespace muster::inline v0_1::distribute {
namespace {

using plan::Phase;
using testing::ElementsAre;

TEST(LocalGroupTest, TextsAreExchangedMeetingByMeeting) {
  LocalGroup group(2, {.progress = 60});
  auto other = std::async(std::launch::async, [&] {
    group.exchange(1, "first", "b");
    return group.exchange(1, "second", "d");
  });
  EXPECT_THAT(group.exchange(0, "first", "a"), ElementsAre("a", "b"));
  EXPECT_THAT(group.exchange(0, "second", "c"), ElementsAre("c", "d"));
  EXPECT_THAT(other.get(), ElementsAre("c", "d"));
}

TEST(LocalGroupTest, AReplicaThatDoesNotComeIsNamedToAll) {
  LocalGroup group(3, {.progress = 0.1});
  for (int replica : {0, 1, 2}) group.report(replica, Phase::kTraining, 7);
  const auto wait = [&](int replica) {
    return error_of([&] { group.exchange(replica, "barrier save", ""); });
  };
  auto third = std::async(std::launch::async, wait, 2);
  for (const Error& error : {wait(0), third.get()}) {
    EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
    EXPECT_THAT(error.message(),
                testing::MatchesRegex("replica 1: no progress for 0.1 s after step 7 while replica "
                                      "[02] waited at 'barrier save'"));
  }
  // Late is too late.
  EXPECT_EQ(wait(1).kind(), ErrorKind::kTimeout);
}

TEST(LocalGroupTest, AReplicaThatEvaluatesIsWaitedFor) {
  LocalGroup group(2, {.progress = 0.1});
  group.report(0, Phase::kTraining, 7);
  group.report(1, Phase::kEvaluating, 7);
  auto first = std::async(std::launch::async, [&] { return group.exchange(0, "saved", "a"); });
  // The law is about time that passes: an evaluation of five times the patience.
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  group.report(1, Phase::kTraining, 7);
  EXPECT_THAT(group.exchange(1, "saved", "b"), ElementsAre("a", "b"));
  EXPECT_THAT(first.get(), ElementsAre("a", "b"));
}

TEST(LocalGroupTest, ASaveHasALimitOfItsOwn) {
  LocalGroup group(3, {.progress = 0.05, .save = 0.4});
  group.report(0, Phase::kSaving, 7);
  for (int replica : {1, 2}) group.report(replica, Phase::kTraining, 7);
  const auto wait = [&](int replica) {
    return error_of([&] { group.exchange(replica, "barrier saved", ""); });
  };
  auto third = std::async(std::launch::async, wait, 2);
  for (const Error& error : {wait(1), third.get()}) {
    EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
    EXPECT_THAT(
        error.message(),
        testing::MatchesRegex("replica 0: saving a checkpoint at step 7 took more than 0.4 s while "
                              "replica [12] waited at 'barrier saved'"));
    EXPECT_THAT(error.hint(), testing::HasSubstr("save_timeout_seconds"));
  }
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
