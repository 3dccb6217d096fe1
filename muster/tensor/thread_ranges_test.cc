#include "muster/tensor/thread_ranges.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>

#include "muster/tensor/threads.h"

namespace muster::inline v0_1 {
namespace {

using Ranges = std::set<std::pair<int64_t, int64_t>>;

class ThreadRangesTest : public ::testing::Test {
 protected:
  ThreadRangesTest() { at::set_num_threads(3); }
  ~ThreadRangesTest() override { at::set_num_threads(before_); }

  Ranges ranges_of(int64_t count, int64_t grain) {
    std::mutex mutex;
    Ranges ranges;
    over_ranges(count, grain, [&](int64_t begin, int64_t end) {
      const std::lock_guard lock(mutex);
      threads_.insert(std::this_thread::get_id());
      EXPECT_TRUE(ranges.emplace(begin, end).second);
    });
    return ranges;
  }

  std::set<std::thread::id> threads_;

 private:
  const int before_ = at::get_num_threads();
};

TEST_F(ThreadRangesTest, AreWhollyDividedOverTheThreads) {
  EXPECT_EQ(ranges_of(8, 1), (Ranges{{0, 3}, {3, 6}, {6, 8}}));
  EXPECT_EQ(threads_.size(), 3);
  EXPECT_EQ(ranges_of(8, 4), (Ranges{{0, 4}, {4, 8}}));
  EXPECT_EQ(ranges_of(8, 8), (Ranges{{0, 8}}));
  EXPECT_EQ(ranges_of(2, 1), (Ranges{{0, 1}, {1, 2}}));
  EXPECT_EQ(ranges_of(0, 1), Ranges{});
}

TEST_F(ThreadRangesTest, ARangeIsNotDividedAgain) {
  over_ranges(3, 1, [&](int64_t, int64_t) {
    over_ranges(100, 1, [&](int64_t begin, int64_t end) { EXPECT_EQ(end - begin, 100); });
  });
}

TEST_F(ThreadRangesTest, AnErrorIsThrownOnTheThreadThatAsked) {
  EXPECT_THROW(over_ranges(3, 1,
                           [](int64_t begin, int64_t) {
                             if (begin == 2) throw std::runtime_error("the last one");
                           }),
               std::runtime_error);
}

}  // namespace
}  // namespace muster::inline v0_1
