#include "muster/base/clock.h"

#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "muster/base/await.h"

namespace muster::inline v0_1 {
namespace {

using namespace std::chrono_literals;

TEST(Clock, SystemClockMovesForward) {
  const TimePoint before = system_clock().now();
  system_clock().sleep_for(1ms);
  EXPECT_GE(system_clock().now() - before, 1ms);
  EXPECT_GT(system_clock().wall_seconds(), 1.6e9);
}

TEST(Clock, SystemClockWaitEnds) {
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_lock lock(mutex);
  EXPECT_FALSE(system_clock().wait_for(lock, changed, 1ms, [] { return false; }));
  EXPECT_TRUE(system_clock().wait_for(lock, changed, 1h, [] { return true; }));
}

TEST(Clock, SecondsRoundTrip) {
  EXPECT_EQ(from_seconds(1.5), 1500ms);
  EXPECT_EQ(from_seconds(-1e-9), -1ns);
  EXPECT_DOUBLE_EQ(to_seconds(2500ms), 2.5);
}

// Limits that never come, which a deadline must not overflow with.
TEST(Clock, MoreThanALifetimeIsAHundredYears) {
  for (const double seconds : {1e10, 1e300, std::numeric_limits<double>::infinity()}) {
    EXPECT_GT(from_seconds(seconds), 24h * 365 * 99) << seconds;
    EXPECT_LT(from_seconds(-seconds), -24h * 365 * 99) << seconds;
    EXPECT_GT(system_clock().now() + from_seconds(seconds), system_clock().now()) << seconds;
  }
}

TEST(ManualClock, MovesOnlyWhenTold) {
  ManualClock clock({.wall_seconds = 100});
  const TimePoint start = clock.now();
  EXPECT_EQ(clock.now(), start);
  clock.advance(3s);
  EXPECT_EQ(clock.now() - start, 3s);
  EXPECT_DOUBLE_EQ(clock.wall_seconds(), 103);
}

TEST(ManualClock, SleeperWakesWhenAdvanced) {
  ManualClock clock;
  std::thread sleeper([&] { clock.sleep_for(10s); });
  await([&] { return clock.sleepers() != 0; });
  clock.advance(9s);
  EXPECT_EQ(clock.sleepers(), 1);
  clock.advance(1s);
  sleeper.join();
  EXPECT_EQ(clock.sleepers(), 0);
}

TEST(ManualClock, WaiterEndsByTimeOrByNews) {
  ManualClock clock;
  std::mutex mutex;
  std::condition_variable changed;
  bool news = false;
  for (const bool by_news : {false, true}) {
    bool outcome = !by_news;
    std::thread waiter([&] {
      std::unique_lock lock(mutex);
      outcome = clock.wait_for(lock, changed, 5s, [&] { return news; });
    });
    await([&] { return clock.sleepers() != 0; });
    if (by_news) {
      std::lock_guard lock(mutex);
      news = true;
      changed.notify_all();
    } else {
      clock.advance(5s);
    }
    waiter.join();
    EXPECT_EQ(outcome, by_news);
  }
}

TEST(ManualClock, SleepCanAdvance) {
  ManualClock clock({.sleep_advances = true});
  const TimePoint start = clock.now();
  clock.sleep_for(2s);
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_lock lock(mutex);
  EXPECT_FALSE(clock.wait_for(lock, changed, 3s, [] { return false; }));
  EXPECT_EQ(clock.now() - start, 5s);
}

}  // namespace
}  // namespace muster::inline v0_1
