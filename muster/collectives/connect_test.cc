#include "muster/collectives/connect.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/base/strings.h"
#include "muster/collectives/communicator_suite.h"
#include "muster/tensor/libtorch.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::HasSubstr;

// Changes one word of rank 1's statement about itself: its host (0) or its socket (1).
class TamperingStore : public MemoryStore {
 public:
  TamperingStore(int word, std::string value) : word_(word), value_(std::move(value)) {}
  void set(const std::string& key, const std::string& value) override {
    if (!key.ends_with("shared_memory/at/0")) return MemoryStore::set(key, value);
    std::vector<std::string> words = split(value, ' ');
    words[static_cast<size_t>(word_)] = (word_ == 0 ? "=" : "") + value_;
    MemoryStore::set(key, join(words, " "));
  }

 private:
  const int word_;
  const std::string value_;
};

TEST(MakeCommunicator, SharesMemoryOnOneHostAndElseTakesTcp) {
  MemoryStore here;
  TamperingStore elsewhere(0, "another-host");
  TamperingStore locked_away(1, "muster-nobody-listens-here");
  for (const auto& [store, expected] :
       {std::pair<KeyValueStore*, std::string>(&here, "shared memory"),
        std::pair<KeyValueStore*, std::string>(&elsewhere, "TCP"),
        std::pair<KeyValueStore*, std::string>(&locked_away, "TCP")}) {
    testing::run_ranks(3, [&](int rank) {
      auto group = make_communicator({.rendezvous = store, .rank = rank, .size = 3});
      EXPECT_EQ(group->name(), expected);
      Tensor buffer = uneven_values(rank, 999, kFloat32);
      group->all_reduce(buffer).wait();
      EXPECT_TRUE(same_bits(buffer, expected_sum(3, 999, kFloat32)));
    });
  }
}

// Two hosts, {0, 1} and {2, 3}. The socket of rank `locked` cannot be found.
class TwoHostsStore : public MemoryStore {
 public:
  explicit TwoHostsStore(int locked) : locked_(locked) {}
  void set(const std::string& key, const std::string& value) override {
    if (key.starts_with("hosts/")) return MemoryStore::set(key, key.back() < '2' ? "a" : "b");
    if (!key.ends_with(fmt::format("host{}/shared_memory/at/{}", locked_ / 2, locked_ % 2))) {
      return MemoryStore::set(key, value);
    }
    std::vector<std::string> words = split(value, ' ');
    words[1] = "muster-nobody-listens-here";
    MemoryStore::set(key, join(words, " "));
  }

 private:
  const int locked_;
};

TEST(MakeCommunicator, RanksOfAHostThatCannotShareMemoryMeanTcpForAll) {
  for (const int locked : {0, 2, 5}) {  // of no host, the last one
    TwoHostsStore store(locked);
    ::testing::internal::CaptureStderr();
    testing::run_ranks(4, [&](int rank) {
      auto group = make_communicator({.rendezvous = &store, .rank = rank, .size = 4});
      EXPECT_EQ(group->name(), locked < 4 ? "TCP" : "shared memory inside hosts, TCP between them");
      Tensor buffer = uneven_values(rank, 999, kFloat32);
      group->all_reduce(buffer).wait();
      EXPECT_TRUE(same_bits(buffer, expected_sum(4, 999, kFloat32)));
    });
    const std::string lines = ::testing::internal::GetCapturedStderr();
    EXPECT_THAT(lines, HasSubstr("4 ranks communicate over"));
    if (locked < 4) {
      EXPECT_THAT(lines,
                  HasSubstr(fmt::format("(no shared memory inside of hosts: on the host of rank "
                                        "{0}, rank {1}: no way to rank {0}: ",
                                        locked, locked + 1)));
    }
  }
}

TEST(MakeCommunicator, InsistsOnSharedMemoryWhenToldSo) {
  TamperingStore elsewhere(0, "another-host");
  testing::run_ranks(2, [&](int rank) {
    try {
      make_communicator({.transport = Transport::kSharedMemory,
                         .rendezvous = &elsewhere,
                         .rank = rank,
                         .size = 2});
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
      EXPECT_THAT(error.what(), HasSubstr("not on the same host"));
    }
  });
}

TEST(MakeCommunicator, KnowsItsTransportsByName) {
  EXPECT_EQ(parse_transport("auto"), Transport::kAuto);
  EXPECT_EQ(parse_transport("tcp"), Transport::kTcp);
  EXPECT_EQ(parse_transport("shared_memory"), Transport::kSharedMemory);
  EXPECT_EQ(parse_transport("carrier pigeon"), std::nullopt);
}

TEST(MakeCommunicator, TransportsHaveTheNamesOfTheField) {
  EXPECT_EQ(parse_transport("AUTO"), Transport::kAuto);
  EXPECT_EQ(parse_transport("RING"), Transport::kTcp);
  EXPECT_EQ(parse_transport("gloo"), Transport::kTcp);
  EXPECT_EQ(parse_transport("shared_memory"), Transport::kSharedMemory);
  EXPECT_EQ(parse_transport("NCCL"), Transport::kNccl);
  EXPECT_FALSE(parse_transport("mpi"));
}

}  // namespace
}  // namespace muster::inline v0_1
