#include "muster/collectives/thread_communicator.h"

#include <gtest/gtest.h>

#include "muster/collectives/communicator_suite.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1 {
namespace {

void run_threads(const GroupOptions& options, const RankBody& body) {
  auto group = make_thread_communicators({.size = options.size, .timeout = options.timeout});
  testing::run_ranks(options.size, [&](int rank) { body(std::move(group[rank])); });
}

INSTANTIATE_TEST_SUITE_P(Threads, CommunicatorSuite,
                         ::testing::Values(TransportCase{"threads", run_threads}));

TEST(ThreadCommunicator, ManyRanksAddInRankOrder) {
  constexpr int kRanks = 40;
  auto group = make_thread_communicators({.size = kRanks});
  testing::run_ranks(kRanks, [&](int rank) {
    const Tensor values = uneven_values(rank, 1003, kFloat32);
    group[static_cast<size_t>(rank)]->all_reduce(values).wait();
    EXPECT_TRUE(same_bits(values, expected_sum(kRanks, 1003, kFloat32)));
  });
}

TEST(ThreadCommunicator, RefusesAnEmptyGroup) {
  EXPECT_THROW(make_thread_communicators({.size = 0}), Error);
}

}  // namespace
}  // namespace muster::inline v0_1
