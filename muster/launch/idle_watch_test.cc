#include "muster/launch/internal/idle_watch.h"

#include <gtest/gtest.h>

namespace muster::inline v0_1::launch::internal {
namespace {

using Seconds = IdleWatch::Seconds;

constexpr Seconds kEvery{1};

IdleWatch::TimePoint at(double seconds) {
  return IdleWatch::TimePoint() +
         std::chrono::duration_cast<IdleWatch::TimePoint::duration>(Seconds(seconds));
}

TEST(IdleWatch, ATaskIsIdleThatNeitherPrintsNorUsesTheProcessor) {
  IdleWatch watch;
  for (int second = 0; second <= 10; ++second) watch.look(3, at(second), kEvery);
  EXPECT_NEAR(watch.idle().count(), 10, 1e-6);
  // A heartbeat is not work.
  watch.look(3.005, at(11), kEvery);
  EXPECT_NEAR(watch.idle().count(), 11, 1e-6);
  watch.look(3.505, at(12), kEvery);
  EXPECT_EQ(watch.idle().count(), 0);
  // What worked a moment ago is not idle yet.
  watch.look(3.505, at(13), kEvery);
  EXPECT_EQ(watch.idle().count(), 0);
  for (int second = 14; second <= 40; ++second) watch.look(3.505, at(second), kEvery);
  const double idle = watch.idle().count();
  EXPECT_GT(idle, 15);
  watch.note_life(at(40.25));
  EXPECT_EQ(watch.idle().count(), 0);
  watch.look(3.505, at(41), kEvery);
  EXPECT_NEAR(watch.idle().count(), 0.75, 1e-6);
}

// The kernel counts processor time in hundredths of a second: what a task that waits uses in many
// seconds comes all at once, in one of them.
TEST(IdleWatch, AHeartbeatThatIsCountedInOneLookIsNoWork) {
  IdleWatch watch;
  for (int second = 0; second <= 60; ++second) watch.look(second / 4 * 0.01, at(second), kEvery);
  EXPECT_GE(watch.idle().count(), 55);
  // A step a second is work.
  for (int second = 61; second <= 80; ++second)
    watch.look(0.15 + (second - 60) * 0.02, at(second), kEvery);
  EXPECT_EQ(watch.idle().count(), 0);
}

// Nobody looked while the machine was paused; the task was paused with it.
TEST(IdleWatch, AGapInWhichNobodyLookedCountsLittle) {
  IdleWatch watch;
  watch.look(3, at(0), kEvery);
  watch.look(3, at(1), kEvery);
  watch.look(3, at(3601), kEvery);
  EXPECT_NEAR(watch.idle().count(), 3, 1e-6);
  // One after the other is late anyway, and ends.
  for (int look = 1; look <= 10; ++look) watch.look(3, at(3601 + 10 * look), kEvery);
  EXPECT_NEAR(watch.idle().count(), 23, 1e-6);
}

}  // namespace
}  // namespace muster::inline v0_1::launch::internal
