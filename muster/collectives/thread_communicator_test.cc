#include "muster/collectives/thread_communicator.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>

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

TEST(ThreadCommunicator, NotesTheEndThatIsAskedFor) {
  auto group = make_thread_communicators({.size = 2});
  std::promise<void> asked;
  testing::run_ranks(2, [&](int rank) {
    Communicator& mine = *group[static_cast<size_t>(rank)];
    const Tensor values = uneven_values(rank, 3, kFloat32);
    if (rank == 1) asked.get_future().wait();
    const Work work = mine.all_reduce(values);
    if (rank == 0) {
      work.note_end();
      EXPECT_FALSE(work.ended());
      const auto before = std::chrono::steady_clock::now();
      asked.set_value();
      work.wait();
      EXPECT_GE(work.ended().value(), before);
      EXPECT_LE(work.ended().value(), std::chrono::steady_clock::now());
    }
    const Work unasked = mine.all_reduce(values);
    unasked.wait();
    EXPECT_FALSE(unasked.ended());
  });
}

TEST(ThreadCommunicator, RefusesAnEmptyGroup) {
  EXPECT_THROW(make_thread_communicators({.size = 0}), Error);
}

}  // namespace
}  // namespace muster::inline v0_1
