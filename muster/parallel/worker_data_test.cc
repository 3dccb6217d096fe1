#include "muster/parallel/worker_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <vector>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/parallel/cluster.h"
#include "muster/parallel/loop_checkpoint.h"
#include "tests/support/cluster_workers.h"

namespace muster::inline v0_1 {
namespace {

using testing::alone;
using ::testing::HasSubstr;
using testing::run_workers;

Dataset numbers(int64_t n) { return Dataset::from_tensor_slices({torch::arange(n)}); }

// What the workers of one run read, in steps from `begin` to `end` or to the end of the data; each
// step saves.
struct Read {
  std::multiset<int64_t> all{};
  int64_t begin = 0;
};

Read read(int workers, const std::string& directory, const Dataset& dataset, int64_t end) {
  Read result;
  std::mutex mutex;
  run_workers(workers, [&](Cluster& cluster) {
    auto data = cluster.distribute(dataset);
    auto checkpoint = cluster.checkpoint(directory);
    checkpoint.add("data", data);
    const int64_t begin = checkpoint.restore();
    for (int64_t step = begin; step < end; ++step) {
      const auto batch = data.next();
      if (!batch) break;
      checkpoint.save(step + 1);
      const Tensor& mine = batch->features;
      const std::lock_guard lock(mutex);
      result.begin = begin;
      for (int64_t i = 0; i < mine.size(0); ++i) result.all.insert(mine[i].item<int64_t>());
    }
    // Ahead of its checkpoint: what is read here is read again.
    if (end < 100) data.next();
  });
  return result;
}

TEST(WorkerDataTest, EachExampleIsReadOnceOverRestartsWithOtherNumbersOfWorkers) {
  const TempDirectory directory;
  const Dataset data = numbers(36).shuffle(36).global_batch(6);
  std::multiset<int64_t> all;
  int64_t steps = 0;
  for (const int workers : {2, 3, 2, 1}) {
    const bool last = workers == 1;
    const Read part = read(workers, directory.path(), data, last ? 100 : steps + 1);
    EXPECT_EQ(part.begin, steps) << workers << " workers";
    if (!last) {
      EXPECT_EQ(part.all.size(), 6U) << workers << " workers";
    }
    all.insert(part.all.begin(), part.all.end());
    ++steps;
  }
  ASSERT_EQ(all.size(), 36U);
  EXPECT_EQ(std::set<int64_t>(all.begin(), all.end()).size(), 36U);
}

TEST(WorkerDataTest, TheStepsOfAnyNumberOfWorkersHaveTheSameExamples) {
  const Dataset data = numbers(24).shuffle(24).global_batch(6);
  std::vector<std::multiset<int64_t>> expected;
  Cluster one(alone());
  auto whole = one.distribute(data);
  while (const auto batch = whole.next()) {
    const Tensor& rows = batch->features;
    const auto* const begin = rows.data_ptr<int64_t>();
    expected.emplace_back(begin, begin + rows.numel());
  }
  ASSERT_EQ(expected.size(), 4U);
  run_workers(3, [&](Cluster& cluster) {
    auto mine = cluster.distribute(data);
    for (const auto& step : expected) {
      const auto batch = mine.next();
      ASSERT_TRUE(batch.has_value());
      EXPECT_EQ(batch->rows(), 2);
      const Tensor rows = torch::cat(cluster.gather(batch->features));
      const auto* const begin = rows.data_ptr<int64_t>();
      EXPECT_EQ(std::multiset<int64_t>(begin, begin + rows.numel()), step);
    }
    EXPECT_FALSE(mine.next().has_value());
  });
}

TEST(WorkerDataTest, PassesAreCountedAndContinued) {
  const TempDirectory directory;
  const Dataset data = numbers(8).shuffle(8).global_batch(4);
  const auto order_of = [&](WorkerData& mine) {
    std::vector<int64_t> order;
    while (const auto batch = mine.next()) {
      const Tensor& rows = batch->features;
      for (int64_t i = 0; i < rows.size(0); ++i) order.push_back(rows[i].item<int64_t>());
    }
    return order;
  };
  std::vector<std::vector<int64_t>> whole;
  {
    Cluster one(alone());
    auto mine = one.distribute(data);
    for (int pass = 0; pass < 3; ++pass) whole.push_back(order_of(mine));
    EXPECT_EQ(mine.passes(), 3);
    EXPECT_NE(whole[0], whole[1]);
  }
  {
    Cluster one(alone());
    auto mine = one.distribute(data);
    auto checkpoint = one.checkpoint(directory.path());
    checkpoint.add("data", mine);
    EXPECT_EQ(order_of(mine), whole[0]);
    checkpoint.save(1);
  }
  Cluster one(alone());
  auto mine = one.distribute(data);
  auto checkpoint = one.checkpoint(directory.path());
  checkpoint.add("data", mine);
  EXPECT_EQ(checkpoint.restore(), 1);
  EXPECT_EQ(mine.passes(), 1);
  EXPECT_EQ(order_of(mine), whole[1]);
  EXPECT_EQ(order_of(mine), whole[2]);
}

TEST(WorkerDataTest, ALastBatchWithoutRowsEndsThePassOneBatchEarlier) {
  run_workers(2, [](Cluster& cluster) {
    auto mine = cluster.distribute(numbers(5).global_batch(4));
    int steps = 0;
    while (mine.next()) ++steps;
    EXPECT_EQ(steps, cluster.is_chief() ? 2 : 1);
    EXPECT_EQ(mine.passes(), 1);
    cluster.join();
  });
}

TEST(WorkerDataTest, RefusesByName) {
  std::vector<std::string> messages(2);
  const testing::LocalCluster workers(2);
  testing::run_ranks(2, [&](int rank) {
    messages[size_t(rank)] = error_of([&] {
                               Cluster cluster(testing::options_of(workers, rank));
                               cluster.distribute(numbers(8 + rank).global_batch(4));
                             }).message();
  });
  EXPECT_THAT(messages[0], HasSubstr("the input"));
  const TempDirectory directory;
  int64_t number = 0;
  {
    Cluster cluster(alone());
    cluster.checkpoint(directory.path()).add("number", number).save(1);
  }
  Cluster cluster(alone());
  auto data = cluster.distribute(numbers(8).batch(4));
  auto checkpoint = cluster.checkpoint(directory.path());
  checkpoint.add("number", number).add("data", data);
  EXPECT_THAT(error_of([&] { checkpoint.restore(); }).message(),
              HasSubstr("holds no position of the data set \"data\""));
}

}  // namespace
}  // namespace muster::inline v0_1
