#include "muster/distribute/replica_threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "muster/base/error_of.h"

namespace muster::inline v0_1::distribute {
namespace {

using ::testing::HasSubstr;

TEST(ReplicaThreadsTest, EachReplicaKeepsItsThread) {
  ReplicaThreads threads(3);
  std::array<std::thread::id, 3> first, again;
  const auto note = [](std::array<std::thread::id, 3>& ids) {
    return [&ids](size_t replica, const auto&) { ids[replica] = std::this_thread::get_id(); };
  };
  threads.run(note(first));
  threads.run(note(again));
  EXPECT_EQ(first, again);
  EXPECT_EQ(first[0], std::this_thread::get_id());
  EXPECT_NE(first[1], first[2]);
}

TEST(ReplicaThreadsTest, TheFirstFailureIsThrownAndTheThreadsContinue) {
  ReplicaThreads threads(2);
  for (int round = 0; round < 100; ++round) {
    const Error error = error_of([&] {
      threads.run([&](size_t replica, const std::function<void()>& failing) {
        if (static_cast<int>(replica) != round % 2) return;
        failing();
        throw invalid_argument(std::to_string(round));
      });
    });
    EXPECT_EQ(error.message(), std::to_string(round));
  }
}

TEST(ReplicaThreadsTest, OnesThatDoNotEndAfterAFailureAreNamed) {
  ReplicaThreads threads(3);
  ::testing::internal::CaptureStderr();
  const Error error = error_of([&] {
    threads.run(
        [&](size_t replica, const std::function<void()>& failing) {
          if (replica == 2) return;
          // Does not notice the error for a while: longer than the patience, after which it is
          // named.
          if (replica == 0) {
            std::this_thread::sleep_for(std::chrono::milliseconds(500));
            return;
          }
          failing();
          throw invalid_argument("no such column");
        },
        std::chrono::milliseconds(100));
  });
  EXPECT_EQ(error.message(), "no such column");
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      HasSubstr("replica 1 failed (no such column); 0.1 s later these have not ended: replica 0"));
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
