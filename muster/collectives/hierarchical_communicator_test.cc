#include "muster/collectives/hierarchical_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/collectives/communicator_suite.h"
#include "muster/tensor/libtorch.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::HasSubstr;

// Ranks of one machine that behave as if they were on these hosts.
void run_on(const std::vector<int>& hosts, const GroupOptions& group, int64_t segment_bytes,
            const RankBody& body) {
  MemoryStore store;
  testing::run_ranks(group.size, [&](int rank) {
    body(make_hierarchical_communicator({.connect = {.rendezvous = &store,
                                                     .rank = rank,
                                                     .size = group.size,
                                                     .timeout = group.timeout},
                                         .host_of_rank = hosts,
                                         .segment_bytes = segment_bytes}));
  });
}

void run_two_hosts(const GroupOptions& group, const RankBody& body) {
  std::vector<int> hosts;
  for (int r = 0; r < group.size; ++r) hosts.push_back(r < (group.size + 1) / 2 ? 0 : 1);
  run_on(hosts, group, 1 << 20, body);
}

// As many hosts as possible, the second with two ranks if a rank is left over.
void run_many_hosts(const GroupOptions& group, const RankBody& body) {
  std::vector<int> hosts;
  for (int r = 0; r < group.size; ++r) hosts.push_back(r < 2 ? r : r - 1);
  run_on(hosts, group, 20'000, body);
}

INSTANTIATE_TEST_SUITE_P(Hierarchical, CommunicatorSuite,
                         ::testing::Values(TransportCase{"two_hosts", run_two_hosts},
                                           TransportCase{"many_hosts", run_many_hosts}),
                         [](const auto& info) { return info.param.name; });

TEST(HierarchicalCommunicator, HostsThatAreNotNumberedInOrderAreRefused) {
  MemoryStore store;
  for (const std::vector<int>& hosts :
       std::vector<std::vector<int>>{{0, 1, 0}, {1, 1, 1}, {0, 2, 3}, {0, 0}}) {
    const Error error = error_of([&] {
      make_hierarchical_communicator(
          {.connect = {.rendezvous = &store, .rank = 0, .size = 3}, .host_of_rank = hosts});
    });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.hint(), HasSubstr("number the hosts 0, 1, ..."));
  }
}

TEST(HierarchicalCommunicator, ARankLostBehindAnotherHostIsNamed) {
  run_on({0, 0, 1, 1}, {.size = 4}, 1 << 20, [](std::unique_ptr<Communicator> group) {
    group->barrier().wait();
    if (group->rank() == 3) return;
    const Error error = error_of([&] { group->all_reduce(torch::ones({100'000})).wait(); });
    EXPECT_EQ(error.kind(), ErrorKind::kPeerLost) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("closed"));
  });
}

}  // namespace
}  // namespace muster::inline v0_1
