#include "muster/distribute/internal/local_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "muster/base/await.h"
#include "muster/base/clock.h"
#include "muster/base/error_of.h"

namespace muster::inline v0_1::distribute {
namespace {

using plan::Phase;
using ::testing::ElementsAre;

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

// A clock that counts the waits that began, so that a test knows when the waiting threads have
// looked at the new time.
class CountedClock : public ManualClock {
 public:
  bool wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                  TimePoint deadline, const std::function<bool()>& done) override {
    ++waits_;
    return ManualClock::wait_until(lock, changed, deadline, done);
  }
  void await_waits(int waits) const {
    await([&] { return waits_ >= waits; });
  }

 private:
  std::atomic<int> waits_ = 0;
};

TEST(LocalGroupTest, AReplicaThatDoesNotComeIsNamedToAll) {
  CountedClock clock;
  LocalGroup group(3, {.progress = 300}, 0, clock);
  for (int replica : {0, 1, 2}) group.report(replica, Phase::kTraining, 7);
  const auto wait = [&](int replica) {
    return error_of([&] { group.exchange(replica, "barrier save", ""); });
  };
  auto first = std::async(std::launch::async, wait, 0);
  auto third = std::async(std::launch::async, wait, 2);
  clock.await_waits(2);
  clock.advance(std::chrono::seconds(299));
  clock.await_waits(4);
  EXPECT_FALSE(group.failure());
  clock.advance(std::chrono::seconds(2));
  for (const Error& error : {first.get(), third.get()}) {
    EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
    EXPECT_THAT(error.message(),
                ::testing::MatchesRegex("replica 1: no progress for 300.0 s after step 7 while "
                                        "replica [02] waited at 'barrier save'"));
  }
  // Late is too late.
  EXPECT_EQ(wait(1).kind(), ErrorKind::kTimeout);
}

TEST(LocalGroupTest, AReplicaThatEvaluatesIsWaitedFor) {
  CountedClock clock;
  LocalGroup group(2, {.progress = 300}, 0, clock);
  group.report(0, Phase::kTraining, 7);
  group.report(1, Phase::kEvaluating, 7);
  auto first = std::async(std::launch::async, [&] { return group.exchange(0, "saved", "a"); });
  clock.await_waits(1);
  clock.advance(std::chrono::seconds(1500));
  clock.await_waits(2);
  group.report(1, Phase::kTraining, 7);
  EXPECT_THAT(group.exchange(1, "saved", "b"), ElementsAre("a", "b"));
  EXPECT_THAT(first.get(), ElementsAre("a", "b"));
}

TEST(LocalGroupTest, AReplicaThatWaitsForOtherGroupsIsWaitedFor) {
  CountedClock clock;
  LocalGroup group(2, {.progress = 300}, 0, clock);
  for (int replica : {0, 1}) group.report(replica, Phase::kTraining, 7);
  auto first = std::async(std::launch::async, [&] { return group.exchange(0, "step", "a"); });
  clock.await_waits(1);
  {
    const LocalGroup::Outside outside(group, 1);
    clock.advance(std::chrono::seconds(1500));
    clock.await_waits(2);
  }
  EXPECT_THAT(group.exchange(1, "step", "b"), ElementsAre("a", "b"));
  EXPECT_THAT(first.get(), ElementsAre("a", "b"));
}

TEST(LocalGroupTest, ASaveHasALimitOfItsOwn) {
  CountedClock clock;
  LocalGroup group(3, {.progress = 300, .save = 1800}, 0, clock);
  group.report(0, Phase::kSaving, 7);
  for (int replica : {1, 2}) group.report(replica, Phase::kTraining, 7);
  const auto wait = [&](int replica) {
    return error_of([&] { group.exchange(replica, "barrier saved", ""); });
  };
  auto second = std::async(std::launch::async, wait, 1);
  auto third = std::async(std::launch::async, wait, 2);
  clock.await_waits(2);
  clock.advance(std::chrono::seconds(1799));
  clock.await_waits(4);
  EXPECT_FALSE(group.failure());
  clock.advance(std::chrono::seconds(2));
  for (const Error& error : {second.get(), third.get()}) {
    EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
    EXPECT_THAT(error.message(),
                ::testing::MatchesRegex("replica 0: saving a checkpoint at step 7 took more than "
                                        "1800.0 s while replica [12] waited at 'barrier saved'"));
    EXPECT_THAT(error.hint(), ::testing::HasSubstr("save_timeout"));
  }
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
