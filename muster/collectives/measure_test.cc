#include "muster/collectives/measure.h"

#include <gtest/gtest.h>

#include "muster/collectives/thread_communicator.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1 {
namespace {

TEST(MeasureAllReduce, AllRanksGetTheSameFigures) {
  auto groups = make_thread_communicators({.size = 3});
  std::vector<plan::CommunicationCost> costs(3);
  testing::run_ranks(3, [&](int rank) {
    costs[static_cast<size_t>(rank)] = measure_all_reduce(*groups[static_cast<size_t>(rank)]);
  });
  for (const plan::CommunicationCost& cost : costs) {
    EXPECT_GT(cost.latency, 0);
    EXPECT_GE(cost.seconds_per_byte, 0);
    EXPECT_EQ(cost.latency, costs[0].latency);
    EXPECT_EQ(cost.seconds_per_byte, costs[0].seconds_per_byte);
  }
}

TEST(MeasureAllReduce, AGroupOfOneCostsNothing) {
  const auto groups = make_thread_communicators({.size = 1});
  EXPECT_EQ(measure_all_reduce(*groups[0]).latency, 0);
}

}  // namespace
}  // namespace muster::inline v0_1
