#include "muster/launch/internal/processor_times.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

namespace muster::inline v0_1::launch {
namespace {

using internal::ProcessorTimes;

TEST(ProcessorTimes, OfThisProcessGrowAndOfNobodyAreNone) {
  const auto before = ProcessorTimes::now().of_task(getpid());
  ASSERT_TRUE(before.has_value());
  const pid_t child = fork();
  if (child == 0) _exit(0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  const ProcessorTimes after = ProcessorTimes::now();
  EXPECT_GE(after.of_task(getpid()), before);
  EXPECT_FALSE(after.of_task(child).has_value());
}

// Between the opening of a process's file and its reading the process may be gone.
TEST(ProcessorTimes, ProcessesMayEndWhileTheyAreLookedAt) {
  std::atomic<bool> enough = false;
  std::vector<std::thread> forking;
  for (int i = 0; i < 3; ++i) {
    forking.emplace_back([&] {
      while (!enough) {
        const pid_t child = fork();
        if (child == 0) _exit(0);
        if (child > 0) waitpid(child, nullptr, 0);
      }
    });
  }
  // Among this many looks, some meet such a process.
  bool all_seen = true;
  EXPECT_NO_THROW(for (int look = 0; look < 500; ++look) {
    all_seen = all_seen && ProcessorTimes::now().of_task(getpid()).has_value();
  });
  EXPECT_TRUE(all_seen);
  enough = true;
  for (std::thread& thread : forking) thread.join();
}

}  // namespace
}  // namespace muster::inline v0_1::launch
