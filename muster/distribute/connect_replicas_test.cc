#include "muster/distribute/internal/connect_replicas.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "muster/base/await.h"
#include "muster/base/error_of.h"
#include "muster/collectives/communicator.h"

namespace muster::inline v0_1::distribute {
namespace {

// Records the ends of a process's communicators.
struct Ends {
  std::atomic<int> connected{0}, aborted{0};
  std::mutex mutex;
  std::vector<int> aborted_before;  // at the end of each: how many had been aborted
};

class Ending : public Communicator {
 public:
  Ending(Ends& ends, int rank, int size) : ends_(ends), rank_(rank), size_(size) {
    ++ends_.connected;
  }
  ~Ending() override {
    const std::lock_guard lock(ends_.mutex);
    ends_.aborted_before.push_back(ends_.aborted);
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string_view name() const override { return "ending"; }
  Work all_reduce(const Tensor&) override { return {}; }
  Work reduce_scatter(const Tensor&, const Tensor&) override { return {}; }
  Work broadcast(const Tensor&, int) override { return {}; }
  Work all_gather(const Tensor&, const Tensor&) override { return {}; }
  Work barrier() override { return {}; }
  void abort(ErrorKind, const std::string&) override { ++ends_.aborted; }

 private:
  Ends& ends_;
  const int rank_, size_;
};

TEST(ConnectReplicasTest, OneThatCannotConnectEndsTheOthersTogether) {
  Ends ends;
  std::vector<std::string> told;
  const Error error = error_of([&] {
    connect_replicas(
        4,
        [&](int local) -> std::unique_ptr<Communicator> {
          if (local != 2) return std::make_unique<Ending>(ends, local, 4);
          await([&] { return ends.connected >= 3; });
          throw Error(ErrorKind::kUnavailable, "no socket");
        },
        [&](const Error& first) { told.push_back(first.message()); });
  });
  EXPECT_EQ(error.message(), "no socket");
  EXPECT_EQ(told, std::vector<std::string>{"no socket"});
  // All were aborted before the first one was waited for.
  EXPECT_EQ(ends.aborted_before, (std::vector<int>{3, 3, 3}));
}

TEST(ConnectReplicasTest, TheFirstToFailIsToldAtOnce) {
  std::atomic<bool> told{false};
  std::atomic<int> calls{0};
  const Error error = error_of([&] {
    connect_replicas(
        3,
        [&](int local) -> std::unique_ptr<Communicator> {
          if (local == 1) throw Error(ErrorKind::kUnavailable, "no socket");
          await([&] { return told.load(); });  // as at a store that ends with the group
          throw Error(ErrorKind::kPeerLost, "the group is over");
        },
        [&](const Error&) {
          ++calls;
          told = true;
        });
  });
  EXPECT_EQ(error.message(), "no socket");
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
