#include "muster/plan/data_shards.h"

#include <gtest/gtest.h>

#include <numeric>

namespace muster::inline v0_1::plan {
namespace {

using Sizes = std::vector<int64_t>;

TEST(BatchSizesForWorker, KnownCases) {
  EXPECT_EQ(batch_sizes_for_worker(8, 2, 2, 0), (Sizes{2, 2, 2, 2}));
  EXPECT_EQ(batch_sizes_for_worker(4, 1, 5, 0), (Sizes{1, 1, 1, 1, 0}));
  EXPECT_EQ(batch_sizes_for_worker(10, 3, 2, 0), (Sizes{2, 2, 2, 2, 1, 1}));
  EXPECT_EQ(batch_sizes_for_worker(10, 3, 2, 1), (Sizes{2, 2, 1, 1, 2, 2}));
  EXPECT_EQ(batch_sizes_for_worker(10, 3, 2, 2), (Sizes{1, 1, 2, 2, 2, 2}));
  EXPECT_EQ(batch_sizes_for_worker(5, 2, 1, 0), (Sizes{3, 2}));
  EXPECT_EQ(batch_sizes_for_worker(5, 2, 1, 1), (Sizes{2, 3}));
}

TEST(BatchSizesForWorker, EveryStepOfAllWorkersIsAGlobalBatch) {
  for (int64_t global = 1; global < 20; ++global) {
    for (int64_t workers = 1; workers < 5; ++workers) {
      for (int64_t local = 1; local < 4; ++local) {
        std::vector<Sizes> sizes;
        for (int64_t w = 0; w < workers; ++w) {
          sizes.push_back(batch_sizes_for_worker(global, workers, local, w));
          EXPECT_EQ(std::accumulate(sizes[w].begin(), sizes[w].end(), int64_t{0}), global);
        }
        for (int64_t step = 0; step < workers; ++step) {
          int64_t rows = 0;
          for (const Sizes& mine : sizes) {
            for (int64_t r = 0; r < local; ++r) rows += mine[static_cast<size_t>(step * local + r)];
          }
          EXPECT_EQ(rows, global) << workers << " workers of " << local << ", step " << step;
        }
      }
    }
  }
}

}  // namespace
}  // namespace muster::inline v0_1::plan
