#include "muster/board/record_list.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace muster::inline v0_1::board {
namespace {

TEST(RecordList, KeepsAnEvenPartAndTheLast) {
  for (const int count : {1, 7, 8, 9, 100, 1001}) {
    RecordList list(8);
    for (int record = 0; record < count; ++record)
      list.add({.step = record, .offset = uint64_t(record)});
    const auto places = list.places();
    ASSERT_LE(places.size(), 9U);
    ASSERT_GE(places.size(), std::min<size_t>(size_t(count), 4));
    EXPECT_EQ(places.front().step, 0);
    EXPECT_EQ(places.back().step, count - 1);
    // All distances are equal but the last one.
    for (size_t at = 2; at + 1 < places.size(); ++at)
      EXPECT_EQ(places[at].step - places[at - 1].step, places[1].step);
    EXPECT_EQ(list.count(), count);
  }
}

TEST(RecordList, ARestartDropsItsStepAndLaterOnes) {
  RecordList list(8);
  for (int record = 0; record < 20; ++record)
    list.add({.step = record, .offset = uint64_t(record)});
  list.drop_from(10);
  EXPECT_LT(list.places().back().step, 10);
  list.drop_from(0);
  EXPECT_TRUE(list.places().empty());
}

}  // namespace
}  // namespace muster::inline v0_1::board
