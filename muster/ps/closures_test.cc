// The calls of a chief as they travel to workers that come, die and come again.
#include "muster/ps/closures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

#include "muster/base/error_of.h"
#include "muster/cluster/resolved_cluster.h"
#include "muster/tensor/libtorch.h"
#include "tests/support/local_cluster.h"

namespace muster::inline v0_1::ps {
namespace {

using ::testing::HasSubstr;

constexpr double kLong = 20;  // seconds; the awaited event comes at once

// A chief with two workers, and no servers: those know nothing of calls.
class ClosuresTest : public ::testing::Test {
 protected:
  ClosureOptions options_of_task(int rank) const {
    return {.start = {.cluster = cluster::resolve_cluster(cluster_.environment(rank)),
                      .join_timeout = kLong,
                      .cancelled = [] { return false; }},
            .definitions = {"f", "g"}};
  }
  std::unique_ptr<ClosureHost> host(ClosureHostOptions options = {}) const {
    options.common = options_of_task(0);
    options.common.servers.heartbeat_timeout = Seconds(heartbeat_timeout_);
    options.form = "the form";
    return host_closures(std::move(options));
  }
  std::unique_ptr<ClosureClient> worker(int rank) const {
    return connect_closures(options_of_task(rank));
  }
  static ClosureClient::Call next(ClosureClient& client) {
    for (int i = 0; i < kLong; ++i) {
      if (auto call = client.next(1)) return *std::move(call);
    }
    throw internal_error("no call came");
  }
  static void wait_for(ClosureHost& host, const ClosureResult& result) {
    uint64_t seen = host.wait_for_change(0, 0);
    while (!result.ended()) {
      const uint64_t before = seen;
      seen = host.wait_for_change(seen, kLong);
      ASSERT_NE(seen, before) << "nothing happens";
    }
  }

  const testing::LocalCluster cluster_{3, /*chief=*/true, /*servers=*/1};
  double heartbeat_timeout_ = 6;
};

TEST_F(ClosuresTest, ACallGoesThereAndItsResultComesBack) {
  const auto chief = host();
  const auto one = worker(1);
  EXPECT_EQ(one->form(), "the form");
  EXPECT_FALSE(one->next(0));
  const Tensor sent = torch::arange(6).view({2, 3});
  const auto result = chief->schedule({.function = "f", .arguments = {sent}});
  const auto call = next(*one);
  EXPECT_EQ(call.closure.function, "f");
  EXPECT_TRUE(call.closure.arguments.at(0).equal(sent));
  EXPECT_FALSE(result->ended());
  EXPECT_TRUE(one->finish(call, {sent + 1, torch::tensor(0.5)}));
  wait_for(*chief, *result);
  EXPECT_FALSE(result->error());
  EXPECT_TRUE(result->tensors().at(0).equal(sent + 1));
  EXPECT_EQ(chief->unfinished(), 0);
}

TEST_F(ClosuresTest, CallsOfALostWorkerAreGivenToTheOther) {
  const auto chief = host();
  auto lost = worker(1);
  const auto other = worker(2);
  const auto result = chief->schedule({.function = "f"});
  // The first worker that asks has it; the other one has nothing to do until the first is gone.
  const auto first = next(*lost);
  EXPECT_FALSE(other->next(0));
  lost.reset();
  const auto second = next(*other);
  EXPECT_NE(second.ticket, first.ticket);
  EXPECT_TRUE(other->finish(second, {torch::tensor(2)}));
  wait_for(*chief, *result);
  EXPECT_EQ(result->tensors().at(0).item<int64_t>(), 2);
  // It comes again, and takes part.
  lost = worker(1);
  const auto more = chief->schedule({.function = "g"});
  EXPECT_TRUE(lost->finish(next(*lost), {}));
  wait_for(*chief, *more);
}

TEST_F(ClosuresTest, AProcessThatWasReplacedIsToldSo) {
  const auto chief = host();
  const auto before = worker(1);
  const auto result = chief->schedule({.function = "f"});
  const auto call = next(*before);
  const auto after = worker(1);
  EXPECT_FALSE(before->finish(call, {torch::tensor(1)}));
  EXPECT_EQ(error_of([&] { before->next(0); }).kind(), ErrorKind::kPeerLost);
  EXPECT_TRUE(after->finish(next(*after), {torch::tensor(2)}));
  wait_for(*chief, *result);
  EXPECT_EQ(result->tensors().at(0).item<int64_t>(), 2);
}

// The workers' state besides the weights: each begins with the others' results.
TEST_F(ClosuresTest, TheStateGoesToWhoeverHasItNotAndToThoseThatLook) {
  const auto chief = host({.state = {torch::tensor(1), torch::tensor(2)}, .refreshed = {"look"}});
  const auto one = worker(1);
  for (const char* function : {"step", "step", "look"}) chief->schedule({.function = function});
  auto call = next(*one);
  EXPECT_EQ(call.state.at(1).item<int64_t>(), 2);
  EXPECT_TRUE(one->finish(call, {torch::tensor(7)}, {torch::tensor(3), torch::tensor(4)}));
  EXPECT_EQ(chief->state().at(0).item<int64_t>(), 3);
  call = next(*one);
  EXPECT_TRUE(call.state.empty());
  EXPECT_TRUE(one->finish(call, {}));
  call = next(*one);
  EXPECT_EQ(call.state.at(0).item<int64_t>(), 3);
  EXPECT_TRUE(one->finish(call, {}));
  // Another one, or the same in another process, begins with it.
  for (const int rank : {2, 1}) {
    const auto other = worker(rank);
    chief->schedule({.function = "step"});
    EXPECT_EQ(next(*other).state.at(1).item<int64_t>(), 4);
  }
}

TEST_F(ClosuresTest, AnErrorComesBackWithItsKindAndCancelsWhatWaits) {
  const auto chief = host();
  const auto one = worker(1);
  const auto failed = chief->schedule({.function = "f"});
  const auto waits = chief->schedule({.function = "f"});
  EXPECT_TRUE(one->fail(next(*one), Error(ErrorKind::kNonFinite, "no number", "look")));
  wait_for(*chief, *waits);
  EXPECT_EQ(failed->error()->kind(), ErrorKind::kNonFinite);
  EXPECT_EQ(failed->error()->message(), "no number");
  EXPECT_EQ(failed->error()->hint(), "look");
  EXPECT_EQ(waits->error()->kind(), ErrorKind::kCancelled);
  EXPECT_EQ(error_of([&] { chief->schedule({.function = "f"}); }).message(), "no number");
  EXPECT_NE(chief->schedule({.function = "f"}), nullptr);
}

TEST_F(ClosuresTest, ACallThatTakesItsWorkersDownFails) {
  const auto chief = host({.max_attempts = 2});
  const auto result = chief->schedule({.function = "greedy"});
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto one = worker(1);
    (void)next(*one);
  }
  wait_for(*chief, *result);
  EXPECT_THAT(result->error()->message(), HasSubstr("\"greedy\" was begun 2 times"));
}

TEST_F(ClosuresTest, ASilentWorkerLosesItsCall) {
  heartbeat_timeout_ = 2;
  const auto chief = host();
  ClosureOptions quiet = options_of_task(1);
  quiet.servers.heartbeat_interval = Seconds(1000);  // one at the beginning, and no more
  const auto silent = connect_closures(quiet);
  const auto result = chief->schedule({.function = "f"});
  const auto call = next(*silent);
  // This much time has to pass without a heartbeat, in which the chief looks for silent workers.
  for (int look = 0; look < 5; ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(460));
    (void)chief->wait_for_change(0, 0);
  }
  EXPECT_FALSE(silent->finish(call, {}));
  EXPECT_FALSE(result->ended());
  EXPECT_TRUE(chief->without_workers()->came);
}

TEST_F(ClosuresTest, AFullQueueTakesNoMore) {
  const auto chief = host({.capacity = 1});
  EXPECT_FALSE(chief->without_workers()->came);
  EXPECT_NE(chief->schedule({.function = "f"}), nullptr);
  EXPECT_EQ(chief->schedule({.function = "f"}), nullptr);
  chief->cancel(Error(ErrorKind::kCancelled, "enough"));
  EXPECT_NE(chief->schedule({.function = "f"}), nullptr);
}

TEST_F(ClosuresTest, WorkersHearThatTheRunIsOver) {
  const auto chief = host();
  std::thread goes([one = worker(1)] {
    for (int i = 0; i < kLong && !one->over(); ++i) (void)one->next(1);
    EXPECT_TRUE(one->over());
    one->leave();
  });
  chief->close(kLong);
  goes.join();
}

TEST_F(ClosuresTest, OtherFunctionsAreRefused) {
  const auto chief = host();
  ClosureOptions other = options_of_task(1);
  other.definitions.push_back("h");
  EXPECT_THAT(message_of([&] { connect_closures(other); }), HasSubstr("worker 0 defines"));
}

}  // namespace
}  // namespace muster::inline v0_1::ps
