#include "muster/plan/buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "muster/base/error.h"
#include "muster/plan/sum_schedule.h"

namespace muster::inline v0_1::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<FlatParameter> random_layout(std::mt19937& random) {
  std::vector<FlatParameter> layout(random() % 40);
  std::vector<int64_t> numbers(layout.size());
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int64_t>(i);
  std::ranges::shuffle(numbers, random);
  for (size_t i = 0; i < layout.size(); ++i) {
    layout[i] = {numbers[i], static_cast<int64_t>(random() % 3000), static_cast<int>(random() % 2)};
  }
  return layout;
}

TEST(PlanBuckets, KeepsItsLawsForRandomLayouts) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const auto layout = random_layout(random);
    const BucketOptions options{.first_bucket_bytes = 1 + static_cast<int64_t>(random() % 1000),
                                .bucket_bytes = 1 + static_cast<int64_t>(random() % 8000)};
    const auto buckets = plan_buckets(layout, options);

    std::map<int, int64_t> place;  // bytes so far, per dtype
    std::map<int64_t, int64_t> offset_of, bytes_of;
    std::map<int64_t, int> dtype_of;
    for (const auto& entry : layout) {
      offset_of[entry.parameter] = place[entry.dtype];
      place[entry.dtype] += entry.bytes;
      bytes_of[entry.parameter] = entry.bytes;
      dtype_of[entry.parameter] = entry.dtype;
    }
    std::set<int64_t> seen;
    std::map<int, int64_t> covered;
    for (size_t b = 0; b < buckets.size(); ++b) {
      const Bucket& bucket = buckets[b];
      ASSERT_FALSE(bucket.parameters.empty());
      int64_t at = bucket.offset;
      for (const int64_t parameter : bucket.parameters) {
        EXPECT_TRUE(seen.insert(parameter).second) << "in two buckets";
        EXPECT_EQ(dtype_of[parameter], bucket.dtype);
        EXPECT_EQ(offset_of[parameter], at) << "not contiguous";
        at += bytes_of[parameter];
      }
      EXPECT_EQ(at, bucket.offset + bucket.bytes);
      covered[bucket.dtype] += bucket.bytes;
      const int64_t limit = b == 0 ? options.first_bucket_bytes : options.bucket_bytes;
      if (bucket.parameters.size() > 1 && bucket.bytes > limit) {
        EXPECT_LT(bucket.bytes - bytes_of[bucket.parameters.front()], limit / 8);
      }
    }
    EXPECT_EQ(seen.size(), layout.size());
    for (const auto& [dtype, bytes] : place) EXPECT_EQ(covered[dtype], bytes);
  }
}

TEST(PlanBuckets, StartsAtTheEndOfTheLayoutWithASmallBucket) {
  const std::vector<FlatParameter> layout = {{0, 100, 0}, {1, 100, 0}, {2, 100, 0}, {3, 100, 0}};
  const auto buckets = plan_buckets(layout, {.first_bucket_bytes = 100, .bucket_bytes = 200});
  ASSERT_EQ(buckets.size(), 3U);
  EXPECT_THAT(buckets[0].parameters, ElementsAre(3));
  EXPECT_EQ(buckets[0].offset, 300);
  EXPECT_THAT(buckets[1].parameters, ElementsAre(1, 2));
  EXPECT_EQ(buckets[1].offset, 100);
  EXPECT_THAT(buckets[2].parameters, ElementsAre(0));
}

TEST(PlanBuckets, AFewBiasesDoNotTravelAlone) {
  const std::vector<FlatParameter> layout = {{0, 60, 0}, {1, 900, 0}, {2, 10, 0}};
  const auto buckets = plan_buckets(layout, {.first_bucket_bytes = 100, .bucket_bytes = 800});
  ASSERT_EQ(buckets.size(), 2U);
  EXPECT_THAT(buckets[0].parameters, ElementsAre(1, 2));
  EXPECT_THAT(buckets[1].parameters, ElementsAre(0));
}

TEST(PlanBuckets, RefusesWhatMakesNoSense) {
  const std::vector<FlatParameter> twice = {{0, 4, 0}, {0, 4, 0}};
  EXPECT_THROW(plan_buckets(twice), Error);
  const std::vector<FlatParameter> negative = {{0, -4, 0}};
  EXPECT_THROW(plan_buckets(negative), Error);
  EXPECT_THROW(plan_buckets({}, {.bucket_bytes = 0}), Error);
  EXPECT_THAT(plan_buckets({}), IsEmpty());
}

TEST(LaunchOrder, FollowsTheLastParameterOfEachBucket) {
  const std::vector<Bucket> buckets = {{0, 0, 8, {4, 5}}, {0, 8, 8, {2, 3}}, {0, 16, 8, {0, 1}}};
  EXPECT_THAT(launch_order(buckets, std::vector<int64_t>{5, 4, 3, 2, 1, 0}), ElementsAre(0, 1, 2));
  // Parameter 5 comes late: its bucket, though numbered first, is complete last.
  EXPECT_THAT(launch_order(buckets, std::vector<int64_t>{4, 3, 2, 1, 0, 5}), ElementsAre(1, 2, 0));
  // 2 was unused: its bucket waits for the end of backward.
  EXPECT_THAT(launch_order(buckets, std::vector<int64_t>{5, 4, 3, 1, 0}), ElementsAre(0, 2, 1));
  EXPECT_THROW(launch_order(buckets, std::vector<int64_t>{5, 5}), Error);
  EXPECT_THROW(launch_order(buckets, std::vector<int64_t>{5, 9}), Error);
}

TEST(BucketProgress, LaunchesEveryBucketOnceInOrderAndNeverEarly) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    const auto layout = random_layout(random);
    const auto buckets = plan_buckets(layout, {.first_bucket_bytes = 900, .bucket_bytes = 4000});
    std::vector<int64_t> chief;
    for (const auto& entry : layout) chief.push_back(entry.parameter);
    std::ranges::shuffle(chief, random);
    const auto order = launch_order(buckets, chief);
    ASSERT_TRUE(std::ranges::is_permutation(order, [&] {
      std::vector<int> all(buckets.size());
      for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
      return all;
    }()));
    BucketProgress progress(buckets, order);
    for (int step = 0; step < 2; ++step) {
      progress.reset();
      std::vector<int64_t> mine = chief;  // this rank's own order differs from the chief's
      std::ranges::shuffle(mine, random);
      if (!mine.empty()) mine.resize(mine.size() - random() % 2);  // sometimes one is unused
      std::vector<int> launched;
      std::set<int64_t> ready;
      for (const int64_t parameter : mine) {
        ready.insert(parameter);
        for (const int b : progress.ready(parameter)) {
          for (const int64_t p : buckets[b].parameters) EXPECT_TRUE(ready.contains(p));
          launched.push_back(b);
        }
        EXPECT_THAT(progress.ready(parameter), IsEmpty());
      }
      for (const int b : progress.rest()) launched.push_back(b);
      EXPECT_EQ(launched, order);
      EXPECT_TRUE(progress.finished());
    }
  }
}

TEST(BucketProgress, RefusesWrongOrdersAndUnknownNames) {
  const std::vector<Bucket> buckets = {{0, 0, 8, {0}}, {0, 8, 8, {1}}};
  EXPECT_THROW(BucketProgress(buckets, {0}), Error);
  EXPECT_THROW(BucketProgress(buckets, {0, 0}), Error);
  EXPECT_THROW(BucketProgress(buckets, {}), Error);
  BucketProgress progress(buckets, {0, 1});
  EXPECT_THROW(progress.ready(2), Error);
  EXPECT_THROW(progress.ready(-1), Error);
}

TEST(Exchange, ChunksAndSegmentsTileTheBuffer) {
  for (const int64_t count : {0, 1, 15, 16, 17, 100, 1000, 4097}) {
    for (int ranks = 1; ranks <= 5; ++ranks) {
      int64_t at = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Range chunk = chunk_of(count, ranks, rank);
        EXPECT_EQ(chunk.begin, at);
        EXPECT_LE(chunk.size(), count / ranks + ranks * kChunkAlignment);
        for (const int64_t segment : {1, 7, 64, 5000}) {
          int64_t inside = chunk.begin;
          for (int64_t i = 0; i < segments_of(chunk, segment); ++i) {
            const Range part = segment_of(chunk, segment, i);
            EXPECT_EQ(part.begin, inside);
            EXPECT_GT(part.size(), 0);
            EXPECT_LE(part.size(), segment);
            inside = part.end;
          }
          EXPECT_EQ(inside, chunk.end);
        }
        at = chunk.end;
      }
      EXPECT_EQ(at, count);
    }
  }
}

}  // namespace
}  // namespace muster::inline v0_1::plan
