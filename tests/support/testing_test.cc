#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "muster/base/error.h"
#include "tests/support/file_store.h"
#include "tests/support/process_tasks.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

TEST(RunRanks, RunsEveryRankAtTheSameTime) {
  std::atomic<int> inside = 0;
  run_ranks(4, [&](int) {
    ++inside;
    while (inside.load() < 4) std::this_thread::yield();  // ends only when all four are in here
  });
  EXPECT_EQ(inside.load(), 4);
}

TEST(RunRanks, RethrowsTheFirstFailure) {
  std::atomic<bool> failed = false;
  try {
    run_ranks(3, [&](int rank) {
      if (rank == 2) {
        failed = true;
        throw invalid_argument("rank 2 first");
      }
      while (!failed.load()) std::this_thread::yield();
    });
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "rank 2 first");
  }
}

TEST(RunRanks, EndsTheProcessWhenARankHangs) {
  EXPECT_EXIT(run_ranks(
                  2,
                  [](int rank) {
                    if (rank == 1) ::pause();
                  },
                  50ms),
              ::testing::ExitedWithCode(124), "rank 1 of 2 is still running");
}

TEST(FileStore, KeepsWhatAStoreOwes) {
  const TempDirectory directory;
  FileStore store(directory.path());
  EXPECT_FALSE(store.check("a/b c"));
  store.set("a/b c", std::string("x\0y", 3));
  EXPECT_EQ(store.get("a/b c", 0ms), std::string("x\0y", 3));
  EXPECT_TRUE(store.erase("a/b c"));
  EXPECT_FALSE(store.erase("a/b c"));
  EXPECT_THROW(store.get("a/b c", 5ms), Error);
  run_ranks(4, [&](int) {
    for (int i = 0; i < 25; ++i) store.add("counter", 2);
  });
  EXPECT_EQ(store.add("counter", 0), 200);
  store.set("word", "x");
  EXPECT_THROW(store.add("word", 1), Error);
}

TEST(ProcessTasks, RunsTheBodyInItsOwnProcesses) {
  ProcessTasks tasks(
      3,
      [](Task& task) {
        EXPECT_EQ(task.size(), 3);
        EXPECT_EQ(task.setting("word"), "hello = \"you\"");
        EXPECT_STREQ(::getenv("MUSTER_TESTING_EXTRA"), "1");
        task.store().set(std::to_string(task.rank()), std::to_string(::getpid()));
      },
      {.settings = {{"word", "hello = \"you\""}}, .environment = {{"MUSTER_TESTING_EXTRA", "1"}}});
  tasks.expect_success();
  EXPECT_NE(tasks.store().get("0", 0ms), tasks.store().get("1", 0ms));
  EXPECT_NE(tasks.store().get("2", 0ms), std::to_string(::getpid()));
}

TEST(ProcessTasks, TellsFailuresFromSuccess) {
  ProcessTasks tasks(3, [](Task& task) {
    if (task.rank() == 0) throw invalid_argument("no luck");
    if (task.rank() == 1) {
      EXPECT_EQ(task.size(), 0);
    }
  });
  EXPECT_EQ(tasks.wait(0), 1);
  EXPECT_THAT(tasks.output(0), HasSubstr("no luck"));
  EXPECT_EQ(tasks.wait(1), 1);
  EXPECT_EQ(tasks.wait(2), 0);
}

TEST(ProcessTasks, KillsStopsAndContinues) {
  ProcessTasks tasks(2, [](Task& task) {
    task.store().set("ready" + std::to_string(task.rank()), "");
    task.store().get("go", 30s);
  });
  tasks.store().get("ready0", 30s);
  tasks.store().get("ready1", 30s);
  tasks.kill(0);
  EXPECT_EQ(tasks.wait(0), -SIGKILL);
  tasks.stop(1);
  tasks.store().set("go", "");
  EXPECT_THROW(tasks.wait(1, 100ms), Error);  // stopped: it cannot see "go"
  EXPECT_TRUE(tasks.running(1));
  tasks.resume(1);
  EXPECT_EQ(tasks.wait(1), 0);
}

}  // namespace
}  // namespace muster::inline v0_1::testing
