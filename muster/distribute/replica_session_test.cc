#include "muster/distribute/internal/replica_session.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/error_of.h"
#include "muster/collectives/internal/tensor_communicator.h"

namespace muster::inline v0_1::distribute {
namespace {

// What happened to the communicators of a process.
struct Ends {
  std::atomic<int> connected{0}, aborted{0};
  std::mutex mutex;
  std::vector<int> aborted_before;  // at the end of each: how many had been told
};

class Ending : public internal::TensorCommunicator {
 public:
  Ending(Ends& ends, int rank, int size) : TensorCommunicator(rank, size), ends_(ends) {
    start({.execute = [](const internal::Operation&) {}, .finish = [](const Error*) {}});
    ++ends_.connected;
  }
  ~Ending() override {
    stop();
    const std::lock_guard lock(ends_.mutex);
    ends_.aborted_before.push_back(ends_.aborted);
  }
  std::string_view name() const override { return "ending"; }

 private:
  void interrupt(const Error&) override { ++ends_.aborted; }
  Ends& ends_;
};

TEST(ConnectReplicasTest, OneThatCannotConnectEndsTheOthersTogether) {
  Ends ends;
  std::vector<std::string> told;
  const Error error = error_of([&] {
    connect_replicas(
        4,
        [&](int local) -> std::unique_ptr<Communicator> {
          if (local != 2) return std::make_unique<Ending>(ends, local, 4);
          while (ends.connected < 3) std::this_thread::yield();
          throw Error(ErrorKind::kUnavailable, "no socket");
        },
        [&](const Error& first) { told.push_back(first.message()); });
  });
  EXPECT_EQ(error.message(), "no socket");
  EXPECT_EQ(told, std::vector<std::string>{"no socket"});
  // All were told before the first one was waited for.
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
          while (!told) std::this_thread::yield();  // as at a store that ends with the group
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
