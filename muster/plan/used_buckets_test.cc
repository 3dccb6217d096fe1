#include "muster/plan/used_buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>
#include <set>

namespace muster::inline v0_1::plan {
namespace {

constexpr int kAnyNumber = std::numeric_limits<int>::max();

TEST(UsedParts, AreThoseBytesAndNoOthers) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<FlatParameter> layout(1 + random() % 30);
    std::vector<bool> used(layout.size());
    std::map<int, int64_t> end;
    std::vector<int64_t> offset(layout.size());
    for (size_t i = 0; i < layout.size(); ++i) {
      layout[i] = {static_cast<int64_t>(i), 1 + static_cast<int64_t>(random() % 900),
                   static_cast<int>(random() % 2)};
      used[i] = random() % 3 > 0;
      offset[i] = end[layout[i].dtype];
      end[layout[i].dtype] += layout[i].bytes;
    }
    const auto buckets = plan_buckets(layout, {.first_bucket_bytes = 500, .bucket_bytes = 2000});
    std::set<int64_t> seen;
    for (const Bucket& part : used_parts(layout, buckets, used, kAnyNumber)) {
      int64_t at = part.offset;
      for (const int64_t p : part.parameters) {
        const auto i = static_cast<size_t>(p);
        EXPECT_TRUE(used[i]);
        EXPECT_TRUE(seen.insert(p).second);
        EXPECT_EQ(layout[i].dtype, part.dtype);
        EXPECT_EQ(offset[i], at);
        at += layout[i].bytes;
      }
      EXPECT_EQ(at, part.offset + part.bytes);
    }
    EXPECT_EQ(static_cast<int64_t>(seen.size()), std::ranges::count(used, true));
  }
}

TEST(UsedParts, ABucketOfTooManyPartsStaysWhole) {
  const std::vector<FlatParameter> layout{{0, 10, 0}, {1, 10, 0}, {2, 10, 0}};
  const auto buckets = plan_buckets(layout);
  ASSERT_EQ(buckets.size(), 1u);
  EXPECT_EQ(used_parts(layout, buckets, {true, false, true}, 2).size(), 2u);
  const auto whole = used_parts(layout, buckets, {true, false, true}, 1);
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(whole[0].bytes, 30);
  EXPECT_EQ(whole[0].parameters, buckets[0].parameters);
}

// How many of the last `n` backwards a loop's prediction was wrong about; the loop uses one of
// `turns` in each backward, again and again.
int wrong(const std::vector<int>& turns, int rounds, int n) {
  UsePrediction prediction(3);
  const int backwards = rounds * static_cast<int>(turns.size());
  int wrong = 0;
  for (int i = 0; i < backwards; ++i) {
    std::vector<bool> used(3, false);
    used[static_cast<size_t>(turns[static_cast<size_t>(i) % turns.size()])] = true;
    if (i >= backwards - n && prediction.expected() != used) ++wrong;
    prediction.note(used);
  }
  return wrong;
}

TEST(UsePrediction, LearnsTheTurnsOfALoop) {
  EXPECT_EQ(UsePrediction(2).expected(), std::vector<bool>({true, true}));
  EXPECT_EQ(wrong({0}, 5, 4), 0);
  EXPECT_EQ(wrong({0, 1}, 5, 6), 0);
  EXPECT_EQ(wrong({0, 0, 0, 0, 0, 1}, 6, 18), 0);
  EXPECT_EQ(wrong({0, 0, 2, 1, 1}, 6, 15), 0);
}

TEST(UsePrediction, KeepsLittleWhereNothingRepeats) {
  constexpr size_t kParameters = 40;
  std::mt19937 random(5);
  UsePrediction prediction(kParameters);
  std::vector<bool> last;
  for (int i = 0; i < 3000; ++i) {
    last.assign(kParameters, false);
    for (size_t p = 0; p < kParameters; ++p) last[p] = random() % 2 == 0;
    prediction.note(last);
    // A new set follows on no known history.
    EXPECT_EQ(prediction.expected(), last);
  }
}

}  // namespace
}  // namespace muster::inline v0_1::plan
