#include "muster/base/thread_stacks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

namespace muster::inline v0_1 {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// A thread that stands still in a function of its own until the test ends.
class StandingThread {
 public:
  explicit StandingThread(bool deaf = false)
      : thread_([this, deaf] { deaf ? stand_deaf() : stand_in_this_function(); }) {
    id_ = standing_.get_future().get();
  }
  ~StandingThread() {
    {
      const std::scoped_lock lock(mutex_);
      released_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  int64_t id() const { return id_; }

 private:
  __attribute__((noinline)) void stand_in_this_function() {
    std::unique_lock lock(mutex_);
    standing_.set_value(this_thread_id());
    changed_.wait(lock, [this] { return released_; });
  }
  void stand_deaf() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    stand_in_this_function();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool released_ = false;
  std::promise<int64_t> standing_;
  int64_t id_ = 0;
  std::thread thread_;
};

TEST(ThreadStacks, NameTheFunctionsOfEachThread) {
  const StandingThread one, other;
  for (int again = 0; again < 3; ++again) {
    const std::vector<ThreadStack> stacks = thread_stacks(other.id());
    ASSERT_FALSE(stacks.empty());
    EXPECT_EQ(stacks[0].threads.front(), other.id()) << "the one that was asked for";
    int standing = 0;
    for (const ThreadStack& stack : stacks) {
      EXPECT_EQ(std::ranges::count(stack.threads, this_thread_id()), 0);
      for (const int64_t thread : stack.threads) {
        if (thread != one.id() && thread != other.id()) continue;
        ++standing;
        EXPECT_THAT(stack.frames, Contains(HasSubstr("stand_in_this_function")));
      }
    }
    EXPECT_EQ(standing, 2);
  }
}

TEST(ThreadStacks, AThreadThatDoesNotAnswerHasNoFrames) {
  const StandingThread deaf(/*deaf=*/true);
  const auto stacks = thread_stacks(deaf.id(), std::chrono::milliseconds(50));
  ASSERT_FALSE(stacks.empty());
  EXPECT_EQ(stacks[0].threads.front(), deaf.id());
  EXPECT_TRUE(stacks[0].frames.empty());
}

TEST(ThreadStacks, ThreadsThatEndMeanwhileDoNoHarm) {
  for (int round = 0; round < 20; ++round) {
    std::vector<std::thread> brief;
    for (int i = 0; i < 8; ++i) brief.emplace_back([] {});
    (void)thread_stacks(0, std::chrono::milliseconds(20));
    for (std::thread& thread : brief) thread.join();
  }
  const StandingThread last;
  EXPECT_THAT(thread_stacks(last.id()).front().frames,
              Contains(HasSubstr("stand_in_this_function")));
}

}  // namespace
}  // namespace muster::inline v0_1
