#include "muster/base/queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace muster::inline v0_1 {
namespace {

TEST(BlockingQueue, KeepsOrderAndDrainsAfterClose) {
  BlockingQueue<int> queue(3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(queue.push(i));
  queue.close();
  EXPECT_FALSE(queue.push(4));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(queue.pop(), i);
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(BlockingQueue, HoldsNoMoreThanItsCapacity) {
  constexpr int kCapacity = 3, kEntries = 1000;
  BlockingQueue<int> queue(kCapacity);
  std::atomic<int> pushed = 0;
  std::thread producer([&] {
    while (pushed < kEntries && queue.push(0)) ++pushed;
  });
  for (int popped = 0; popped < kEntries; ++popped) {
    EXPECT_LE(pushed.load(), popped + kCapacity);
    (void)queue.pop();
  }
  producer.join();
}

TEST(BlockingQueue, HoldsMoveOnlyEntries) {
  BlockingQueue<std::unique_ptr<int>> queue(1);
  EXPECT_TRUE(queue.push(std::make_unique<int>(5)));
  EXPECT_EQ(**queue.pop(), 5);
}

TEST(BlockingQueue, CloseAndCancelEndWaits) {
  BlockingQueue<int> full(1), empty(1);
  full.push(1);
  bool pushed = true;
  std::optional<int> popped = 1;
  std::thread pusher([&] { pushed = full.push(2); });
  std::thread popper([&] { popped = empty.pop(); });
  full.cancel();
  empty.close();
  pusher.join();
  popper.join();
  EXPECT_EQ(popped, std::nullopt);
  EXPECT_EQ(full.pop(), std::nullopt);
  EXPECT_FALSE(full.push(3));
  EXPECT_THROW(BlockingQueue<int>(0), Error);
  EXPECT_FALSE(pushed);
}

TEST(BlockingQueue, ManyThreadsLoseNothing) {
  BlockingQueue<int> queue(4);
  constexpr int kThreads = 3, kEach = 500;
  std::vector<std::thread> producers, consumers;
  std::vector<std::vector<int>> got(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    producers.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) queue.push(t * kEach + i);
    });
    consumers.emplace_back([&, t] {
      while (auto entry = queue.pop()) got[t].push_back(*entry);
    });
  }
  for (auto& thread : producers) thread.join();
  queue.close();
  for (auto& thread : consumers) thread.join();
  std::set<int> all;
  size_t count = 0;
  for (const auto& part : got) {
    all.insert(part.begin(), part.end());
    count += part.size();
  }
  EXPECT_EQ(count, size_t{kThreads * kEach});
  EXPECT_EQ(all.size(), count);
}

}  // namespace
}  // namespace muster::inline v0_1
