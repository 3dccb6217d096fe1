#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <thread>
#include <vector>

#include "muster/base/await.h"
#include "muster/base/error.h"
#include "muster/collectives/internal/address.h"
#include "muster/collectives/internal/descriptor_claim.h"
#include "muster/collectives/internal/operation.h"
#include "muster/collectives/internal/operation_queue.h"
#include "muster/collectives/internal/progress_engine.h"
#include "muster/collectives/internal/sum.h"
#include "muster/collectives/rendezvous.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1 {
namespace {

using namespace std::chrono_literals;
using internal::ElementType;
using internal::Operation;
using internal::OperationKind;
using internal::OperationQueue;
using internal::ProgressEngine;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(MemoryStore, KeepsWhatAStoreOwes) {
  MemoryStore store;
  EXPECT_FALSE(store.check("a"));
  std::thread late([&] {
    std::this_thread::sleep_for(10ms);
    store.set("a", std::string("x\0y", 3));
  });
  EXPECT_EQ(store.get("a", 30s), std::string("x\0y", 3));
  late.join();
  EXPECT_TRUE(store.erase("a"));
  EXPECT_FALSE(store.erase("a"));
  EXPECT_THROW(store.get("a", 1ms), Error);
  testing::run_ranks(4, [&](int) {
    for (int i = 0; i < 100; ++i) store.add("counter", 2);
  });
  EXPECT_EQ(store.add("counter", 0), 800);
  store.set("word", "x");
  EXPECT_THROW(store.add("word", 1), Error);
}

// In a process of its own, which may have `more` descriptors than it has open, and twice as many
// when it raises its limit.
void limit_descriptors(int64_t more) {
  const auto open = std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                                  std::filesystem::directory_iterator()) -
                    1;
  const rlimit limit{.rlim_cur = static_cast<rlim_t>(open + more),
                     .rlim_max = static_cast<rlim_t>(open + 2 * more)};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

void claim_until_it_ends() {
  limit_descriptors(100);
  rlimit before{}, after{};
  getrlimit(RLIMIT_NOFILE, &before);
  internal::DescriptorClaim small(10, "a few");
  getrlimit(RLIMIT_NOFILE, &after);
  EXPECT_EQ(after.rlim_cur, before.rlim_cur) << "raised without need";
  small.keep();
  {
    const internal::DescriptorClaim claim(150, "many");
    getrlimit(RLIMIT_NOFILE, &after);
    EXPECT_EQ(after.rlim_cur, before.rlim_max);
    try {
      const internal::DescriptorClaim more(50, "rank 3 of 4 over TCP");
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
      std::fprintf(stderr, "%s\n", error.what());
    }
  }
  const internal::DescriptorClaim again(150, "what was given back");
  std::exit(::testing::Test::HasFailure() ? 1 : 0);
}

TEST(DescriptorClaim, RaisesTheLimitAndThenEndsBeforeTheSystemDoes) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(claim_until_it_ends(), ::testing::ExitedWithCode(0),
              "rank 3 of 4 over TCP takes 50 file descriptors; this process has [0-9]+ open, its "
              "other ranks take 160, and [0-9]+ is the limit(.|\n)*hint: raise the hard limit");
}

TEST(LocalAddress, IsANumberThatThisMachineOwns) {
  EXPECT_EQ(internal::local_address("127.0.0.1"), "127.0.0.1");
  EXPECT_THAT(internal::local_address("localhost"), ::testing::AnyOf("127.0.0.1", "::1"));
  char name[256] = {};
  ASSERT_EQ(::gethostname(name, sizeof(name) - 1), 0);
  for (const std::string& host : {std::string(name), std::string("192.0.2.1")}) {
    std::string address;
    try {
      address = internal::local_address(host);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kNotFound);  // a machine that cannot resolve its own name
      continue;
    }
    in6_addr binary{};
    EXPECT_TRUE(inet_pton(AF_INET, address.c_str(), &binary) == 1 ||
                inet_pton(AF_INET6, address.c_str(), &binary) == 1)
        << address;
    EXPECT_NE(address, "127.0.1.1");
    EXPECT_NE(address, "192.0.2.1");
  }
  EXPECT_THROW(internal::local_address(""), Error);
  EXPECT_THROW(internal::local_address("no-such-host.invalid"), Error);
}

TEST(SumInRankOrder, AddsInOrderAlsoInPlace) {
  // 1e8 + 1 - 1e8 is 0 or 1 in float32, depending on the order.
  const std::vector<std::vector<float>> values = {{1e8F, 1, 1}, {1, 1e8F, 2}, {-1e8F, -1e8F, 3}};
  for (size_t target = 0; target < 4; ++target) {
    auto buffers = values;
    buffers.emplace_back(3);
    std::vector<const std::byte*> inputs;
    for (int r = 0; r < 3; ++r) inputs.push_back(reinterpret_cast<std::byte*>(buffers[r].data()));
    internal::sum_in_rank_order(ElementType::kFloat32,
                                reinterpret_cast<std::byte*>(buffers[target].data()), inputs, 3);
    EXPECT_THAT(buffers[target], ElementsAre(0, 0, 6));
  }
  std::vector<int64_t> a = {INT64_MAX, -5}, b = {1, 7};
  const std::vector<const std::byte*> inputs = {reinterpret_cast<std::byte*>(a.data()),
                                                reinterpret_cast<std::byte*>(b.data())};
  internal::sum_in_rank_order(ElementType::kInt64, reinterpret_cast<std::byte*>(b.data()), inputs,
                              2);
  EXPECT_THAT(b, ElementsAre(INT64_MIN, 2));
  EXPECT_THROW(internal::sum_in_rank_order(ElementType::kByte, nullptr, inputs, 0), Error);
}

TEST(OperationQueue, ExecutesInOrderAndStopsAtTheFirstFailure) {
  std::vector<uint64_t> executed;
  std::string finished = "not yet";
  std::vector<Work> works;
  {
    std::atomic<bool> go = false;
    OperationQueue queue(
        {.start = [] {},
         .execute =
             [&](const Operation& operation) {
               while (!go.load()) std::this_thread::yield();
               executed.push_back(operation.sequence);
               if (operation.sequence == 3) throw invalid_argument("three is bad");
             },
         .finish =
             [&](const Error* error) { finished = error == nullptr ? "" : error->message(); }});
    EXPECT_TRUE(queue.idle());
    for (int i = 0; i < 5; ++i) works.push_back(queue.submit({}));
    EXPECT_FALSE(queue.idle());
    go = true;
    works[1].wait();
    EXPECT_TRUE(works[0].done());
    EXPECT_THROW(works[2].wait(), Error);
    works.push_back(queue.submit({}));
    for (const int i : {3, 4, 5}) {
      try {
        works[i].wait();
        ADD_FAILURE();
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
        EXPECT_THAT(error.what(), HasSubstr("three is bad"));
        EXPECT_THAT(error.what(), HasSubstr("barrier #" + std::to_string(i + 1)));
      }
    }
    EXPECT_FALSE(queue.fail(invalid_argument("late")));
  }
  EXPECT_THAT(executed, ElementsAre(1, 2, 3));
  EXPECT_EQ(finished, "three is bad");
  EXPECT_TRUE(Work().done());
  Work().wait();
}

std::shared_ptr<ProgressEngine> engine_of(int rank, const internal::GroupMembers& members,
                                          std::chrono::milliseconds timeout = 30s) {
  return std::make_shared<ProgressEngine>(ProgressEngine::Options{.rank = rank, .timeout = timeout},
                                          members, std::make_shared<internal::SameProcessMemory>());
}

Operation all_reduce_of(std::vector<double>& values) {
  return {.kind = OperationKind::kAllReduce,
          .type = ElementType::kFloat64,
          .count = static_cast<int64_t>(values.size()),
          .data = reinterpret_cast<std::byte*>(values.data())};
}

TEST(ProgressEngine, ReducesManyTimesWithoutARace) {
  constexpr int kRanks = 20;
  constexpr int64_t kCount = 1003;
  const internal::GroupMembers members = internal::members_of_one_process(kRanks);
  testing::run_ranks(kRanks, [&](int rank) {
    const auto engine = engine_of(rank, members);
    std::vector<double> values(kCount);
    for (int round = 1; round <= 100; ++round) {
      for (int64_t i = 0; i < kCount; ++i) values[i] = static_cast<double>(rank * 1000 + i);
      const Work sum = engine->submit(all_reduce_of(values));
      if (round % 5 == 0) engine->submit({.kind = OperationKind::kBarrier}).wait();
      sum.wait();
      for (int64_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(values[i], static_cast<double>(190'000 + kRanks * i));
      }
    }
    engine->leave();
  });
}

// One thread holds all ranks, so only the last rank can sum anything: it does the part of the ranks
// that it would have to wake.
TEST(ProgressEngine, TheLastRankSumsForThoseThatHavePostedAndSleep) {
  constexpr int kRanks = 3;
  const internal::GroupMembers members = internal::members_of_one_process(kRanks);
  std::vector<std::shared_ptr<ProgressEngine>> engines;
  std::vector<std::vector<double>> values;
  for (int rank = 0; rank < kRanks; ++rank) {
    engines.push_back(engine_of(rank, members));
    values.push_back({1.0 + rank, 10.0 + rank, 100.0 + rank, 1000.0 + rank});
  }
  std::vector<Work> works;
  for (int round = 0; round < 2; ++round) {
    for (int rank = 0; rank < kRanks; ++rank) {
      works.push_back(engines[rank]->submit(all_reduce_of(values[rank])));
    }
  }
  works.back().wait();  // of the last rank, which sums twice: the second sum is of the first ones
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_THAT(values[rank], ElementsAre(18, 99, 909, 9009));
  }
  // The others find all of it done, also a rank that leaves before it has looked.
  works[kRanks].wait();
  engines[1]->leave();
  works[kRanks + 1].wait();
  engines[2]->leave();
  EXPECT_THAT(values[0], ElementsAre(18, 99, 909, 9009));
  engines[0]->leave();
}

// The others cannot begin operations that this rank has not posted, so it has to be awake for that.
TEST(ProgressEngine, ACallWithoutAFreeSlotSleepsUntilOneIsFree) {
  constexpr uint64_t kOperations = 3 * internal::kSlots;
  const internal::GroupMembers members = internal::members_of_one_process(2);
  const auto reduce_all = [&](int rank) {
    const auto engine = engine_of(rank, members);
    std::vector<std::vector<double>> values(kOperations, {1.0 + rank});
    Work last;
    for (std::vector<double>& each : values) last = engine->submit(all_reduce_of(each));
    last.wait();
    for (const std::vector<double>& each : values) EXPECT_THAT(each, ElementsAre(3));
    engine->leave();
  };
  std::thread first([&] { reduce_all(0); });
  const std::atomic<uint64_t>& until = members->front().page().sleeps_until;
  EXPECT_TRUE(comes_true([&] { return until.load() != 0; }));
  EXPECT_EQ(until.load(), internal::kSlots);
  reduce_all(1);
  first.join();
}

// A rank that leaves frees its buffers while others may be about to read and write them.
TEST(ProgressEngine, ARankMayLeaveAtAnyTime) {
  constexpr int kRanks = 3;
  constexpr int kRounds = 60;
  for (int round = 0; round < kRounds; ++round) {
    const internal::GroupMembers members = internal::members_of_one_process(kRanks);
    std::atomic<int> ended = 0;
    testing::run_ranks(kRanks, [&](int rank) {
      const auto engine = engine_of(rank, members);
      std::thread other;
      if (rank == round % kRanks) {
        other = std::thread([&] {
          // Each round fails at another moment of the operation; none of these moments has to be
          // hit.
          std::this_thread::sleep_for(std::chrono::microseconds(round * 37));
          engine->fail(Error(ErrorKind::kPeerLost, "worker:1 makes no progress"));
        });
      }
      try {
        while (true) {
          auto values = std::make_unique<std::vector<double>>(5000, 1.0);
          engine->submit(all_reduce_of(*values)).wait();
          ASSERT_EQ(values->back(), kRanks);
        }
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kPeerLost);
        EXPECT_THAT(error.what(), HasSubstr("worker:1 makes no progress"));
        ++ended;
      }
      if (other.joinable()) other.join();
      engine->leave();
    });
    EXPECT_EQ(ended, kRanks);
  }
}

TEST(ProgressEngine, NamesWhoIsMissingAndWhoIsInAnotherOperation) {
  const internal::GroupMembers members = internal::members_of_one_process(3);
  std::vector<double> values(10);
  const auto alone = engine_of(1, members, 50ms);
  try {
    alone->submit(all_reduce_of(values)).wait();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
    EXPECT_THAT(error.what(), HasSubstr("rank 0, 2 did not take part within 50 ms"));
  }
  const internal::GroupMembers pair = internal::members_of_one_process(2);
  testing::run_ranks(2, [&](int rank) {
    std::vector<double> own(10 + rank);
    const auto engine = engine_of(rank, pair);
    try {
      engine->submit(all_reduce_of(own)).wait();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("of 10 float64"));
      EXPECT_THAT(error.what(), HasSubstr("of 11 float64"));
    }
    engine->leave();
  });
}

}  // namespace
}  // namespace muster::inline v0_1
